typedef int timeline_placeholder;
