// cmd_help - `fedgate help [COMMAND]`.
#include "cli.h"

bool cmd_help(const Invocation *call, int *ret_exit, Error *error)
{
    *ret_exit = 0;
    SCOPED_TEXT text;
    text_init(&text, 64 * 1024);
    if (call->argument_count == 0) {
        help_program(&text);
    } else {
        const Command *command = command_find(call->arguments[0]);
        if (!command)
            return command_unknown(call->arguments[0], error);
        help_command(command, &text);
    }
    output_text(&text);
    return true;
}
