#pragma once
/* Waiting for the end of a session; telling of names. One thread. */
#include <stdint.h>

struct ctl;
struct evd_event;

/* Until it has ended, as --timeout says; prints why. 0, or an exit code. */
int watch_until_down(struct ctl *ctl, uint64_t session);

/* Prints that @alias has come to @session, or gone if that is 0; the word has
 * @width columns. 0, or an exit code. */
int print_name(struct ctl *ctl, const char *alias, uint64_t session, int width);

/* Prints EVD_DOWN, @word before it unless it is JSON. 0, or an exit code. */
int print_down(
	struct ctl *ctl, const struct evd_event *event, const char *word);

/* Wait until something comes, as --timeout says, or nobody reads our output any
 * more. 0, or an exit code. */
int watch_more(struct ctl *ctl);
