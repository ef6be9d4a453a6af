typedef int trainer_placeholder;
