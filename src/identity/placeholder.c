typedef int identity_placeholder;
