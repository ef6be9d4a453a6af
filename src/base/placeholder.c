typedef int base_placeholder;
