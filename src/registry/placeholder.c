typedef int registry_placeholder;
