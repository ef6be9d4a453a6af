typedef int bundle_placeholder;
