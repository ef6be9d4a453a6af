typedef int input_placeholder;
