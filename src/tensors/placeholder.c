typedef int tensors_placeholder;
