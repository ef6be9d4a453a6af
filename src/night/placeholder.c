typedef int night_placeholder;
