typedef int compute_placeholder;
