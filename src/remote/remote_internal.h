// remote_internal.h - what the files of this module share.
#ifndef FEDGATE_REMOTE_INTERNAL_H
#define FEDGATE_REMOTE_INTERNAL_H

#include <curl/curl.h>
#include <fedgate/remote.h>

WARN_UNUSED bool remote_start_library(Error *error);
// remote_check_url, and the host to name in messages; may be the buffer of a target.
WARN_UNUSED bool remote_find_host(const char *url, char ret_host[static REMOTE_HOST_SIZE], Error *error);

#endif
