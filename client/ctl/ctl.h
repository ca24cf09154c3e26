#pragma once
/* What every verb is given: the command line, where to print, the connection.
 * One thread. */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <eventd/client.h>

#include "args.h"
#include "json.h"

enum {
	CTL_TIMEOUT_MS = 30000, /* without --timeout */
	CTL_EXIT_PIPE = 141,    /* who reads our output has gone, as a shell
				 * tells of SIGPIPE */
};

struct ctl {
	const struct args *args;
	FILE *out, *err;     /* borrowed */
	struct json json;    /* writes to @out */
	struct evd *evd;     /* NULL: not connected; free it by ctl_deinit() */
	const char *subject; /* what the verb is about, for errors, or NULL */
	int output_code;     /* what was told of @out, see ctl_flush() */
	int timeout_ms;      /* -1: for ever */
	bool timeout_given;
	bool as_json, legend, quiet, verbose, color;
};

/* Take the options of every verb from @args. @color_out: @out may be coloured
 * (a terminal, no $NO_COLOR). Returns 0, or the exit code of an error that has
 * been told. */
int ctl_init(struct ctl *ctl, const struct args *args, FILE *out, FILE *err,
	bool color_out);
void ctl_deinit(struct ctl *ctl);

/* Run eventctl; the exit code. */
int ctl_main(int argc, char *argv[], FILE *out, FILE *err);

/* Make ctl->evd and connect it. 0, or the exit code of an error that has been
 * told. */
int ctl_connect(struct ctl *ctl);
/* The handle, not connected: for options of its own before ctl_connect(). */
int ctl_handle(struct ctl *ctl);

/* Bytes of a post or call, however it travels; connected. */
uint64_t ctl_max_payload(const struct ctl *ctl);

/* Tell an error: "eventctl: VERB SUBJECT: TEXT", with JSON also an object
 * on stdout. Returns the exit code of @status. */
__attribute__((format(printf, 3, 4))) int ctl_fail(
	struct ctl *ctl, int status, const char *format, ...);
/* The same with a hint behind it: what can be done. @hint may be NULL. */
int ctl_fail_text(
	struct ctl *ctl, int status, const char *text, const char *hint);
/* The error of the evd_ function that failed last. */
int ctl_fail_evd(struct ctl *ctl);
/* A mistake on the command line. */
__attribute__((format(printf, 2, 3))) int ctl_usage(
	struct ctl *ctl, const char *format, ...);

/* A note on stderr: "eventctl: TEXT"; unless --quiet. */
__attribute__((format(printf, 2, 3))) void ctl_note(
	struct ctl *ctl, const char *format, ...);
/* The same, only with --verbose. */
__attribute__((format(printf, 2, 3))) void ctl_detail(
	struct ctl *ctl, const char *format, ...);

/* Hand what was printed to who reads it. 0, or the exit code: CTL_EXIT_PIPE, or
 * that of an error that has been told. */
int ctl_flush(struct ctl *ctl);

/* ---- words of the command line ---- */

static inline bool
ctl_has(const struct ctl *ctl, enum option_id id)
{
	return args_has(ctl->args, id);
}

static inline const char *
ctl_value(const struct ctl *ctl, enum option_id id)
{
	return args_value(ctl->args, id);
}

/* Word number @i; NULL past the last. */
static inline const char *
ctl_word(const struct ctl *ctl, size_t i)
{
	return i < ctl->args->n_words ? ctl->args->words[i] : NULL;
}

/* The value of an option as a span in milliseconds, rounded up; or as a whole
 * number from 1. *@value stays as it is if the option is not given. 0, or an
 * exit code. */
int ctl_span_ms(struct ctl *ctl, enum option_id id, uint64_t *value);
int ctl_count(struct ctl *ctl, enum option_id id, uint64_t *value);
/* enum evd_if_taken of --if-taken. */
uint32_t ctl_if_taken(const struct ctl *ctl);
/* Is @name of [A-Za-z0-9_./-]{1,@max}? 0, or an exit code: @what is not. */
int ctl_check_name(
	struct ctl *ctl, const char *what, const char *name, size_t max);
/* The first two words: an alias and an event. */
int ctl_check_event(struct ctl *ctl);
/* @text is a whole number? */
bool number_parse(const char *text, uint64_t *value);
