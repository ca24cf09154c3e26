#pragma once
/* Waiting for the end of a session; telling of names. One thread. */
#include <stdint.h>

struct ctl;

/* Until it has ended, as --timeout says; prints why. 0, or an exit code. */
int watch_until_down(struct ctl *ctl, uint64_t session);

/* Prints that @alias has come to @session, or gone if that is 0; the word has
 * @width columns. 0, or an exit code. */
int print_name(struct ctl *ctl, const char *alias, uint64_t session, int width);
