// main - one command line: parse, call the command's row, print its error, end with its exit code.
#include "cli.h"
#include <errno.h>
#include <fcntl.h>
#include <fedgate/compute.h>
#include <fedgate/fault.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

// A file opened on a missing descriptor 0, 1 or 2 would get what we print; /dev/null takes their place.
static void open_missing_descriptors(void)
{
    for (int fd = 0; fd <= 2; fd++)
        if (fcntl(fd, F_GETFD) == -1 && errno == EBADF && open("/dev/null", O_RDWR) == -1)
            _exit(74);
}

// The BLAS library chose its kernels before main; with another environment the program starts itself again,
// once. When that cannot be done the night goes on: the kernels in use are read back and recorded, never
// assumed.
static void pin_environment(int argc, char **argv)
{
    const Command *named = argc > 1 ? command_find(argv[1]) : NULL;
    bool computes = !named || !named->light;   // with options before the command: as if it did
    if (computes && device_pin_environment())
        execv("/proc/self/exe", argv);
}

// Answers --help and --version; true when that was all.
static bool answered(const Invocation *call)
{
    SCOPED_TEXT text;
    text_init(&text, 64 * 1024);
    if (call->version)
        text_add(&text, "fedgate " FEDGATE_VERSION "\n");
    else if (call->help && call->command)
        help_command(call->command, &text);
    else if (call->help)
        help_program(&text);
    output_text(&text);
    return call->version || call->help;
}

static bool dispatch(int argc, char **argv, Invocation *call, int *ret_exit, Error *error)
{
    *ret_exit = 0;
    if (!fault_check(error) || !options_parse(argc, argv, call, error))
        return false;
    if (answered(call))
        return true;
    if (!call->command) {
        (void)FAIL(error, ERROR_USAGE, 0, "no command given");
        return error_hint(error, "Try 'fedgate help'.");
    }
    return call->command->handler(call, ret_exit, error);
}

int main(int argc, char **argv)
{
    open_missing_descriptors();
    pin_environment(argc, argv);
    signal(SIGPIPE, SIG_IGN);
    umask(027);
    Invocation call = {0};
    Error error = ERROR_INIT;
    int exit_code;
    if (!dispatch(argc, argv, &call, &exit_code, &error)) {
        output_error(&error);
        exit_code = error_exit_code(error.kind);
    }
    options_done(&call);
    if (output_failed() && exit_code == 0) {
        error_clear(&error);
        (void)FAIL(&error, ERROR_IO, 0, "could not write to the standard output");
        output_error(&error);
        exit_code = error_exit_code(error.kind);
    }
    return exit_code;
}
