/* Errors and notes of eventctl: to stderr, one line each; with --json an
 * object on stdout as well. See ctl.h. One thread. */
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ctl.h"
#include "hint.h"
#include "text.h"

static void
fail_json(struct ctl *ctl, int status, const char *text, const char *hint)
{
	struct json *j = &ctl->json;

	json_object(j, NULL);
	json_object(j, "error");
	json_string(j, "status", evd_status_word(status));
	json_int(j, "code", status);
	json_int(j, "exit", evd_status_exit(status));
	json_string(j, "text", text);
	if (hint && *hint)
		json_string(j, "hint", hint);
	if (ctl->subject)
		json_string(j, "subject", ctl->subject);
	json_object_end(j);
	json_object_end(j);
	json_line_end(j);
	fflush(ctl->out);
}

static void
fail_line(struct ctl *ctl, const char *text, const char *hint)
{
	const struct verb *verb = ctl->args ? ctl->args->verb : NULL;

	fputs("eventctl: ", ctl->err);
	if (verb)
		fputs(verb->name, ctl->err);
	if (verb && ctl->subject) {
		fputc(' ', ctl->err);
		escape_text(ctl->err, ctl->subject);
	}
	if (verb)
		fputs(": ", ctl->err);
	escape_write(ctl->err, text, strlen(text), ESCAPE_KEEP_LINES);
	if (hint && *hint) {
		fputs(" (", ctl->err);
		escape_text(ctl->err, hint);
		fputc(')', ctl->err);
	}
	fputc('\n', ctl->err);
}

int
ctl_fail_text(struct ctl *ctl, int status, const char *text, const char *hint)
{
	size_t size = strlen(text);
	char *line;

	while (size > 0 && text[size - 1] == '\n')
		size--;
	line = strndup(text, size);
	fail_line(ctl, line ? line : text, hint);
	if (ctl->as_json)
		fail_json(ctl, status, line ? line : text, hint);
	free(line);
	return evd_status_exit(status);
}

int
ctl_fail(struct ctl *ctl, int status, const char *format, ...)
{
	char *text = NULL;
	va_list ap;
	int exit_code;

	va_start(ap, format);
	if (vasprintf(&text, format, ap) < 0)
		text = NULL;
	va_end(ap);
	exit_code = ctl_fail_text(
		ctl, status, text ? text : evd_status_text(status), NULL);
	free(text);
	return exit_code;
}

int
ctl_usage(struct ctl *ctl, const char *format, ...)
{
	char text[ARGS_ERROR_SIZE];
	va_list ap;

	va_start(ap, format);
	vsnprintf(text, sizeof(text), format, ap);
	va_end(ap);
	return ctl_fail_text(ctl, EVD_STATUS_INVALID, text, NULL);
}

/* A text that names a command already needs no hint. */
int
ctl_fail_evd(struct ctl *ctl)
{
	int status = evd_last_status(ctl->evd);
	const char *text = evd_last_error(ctl->evd);
	char hint[HINT_SIZE];

	if (!*text)
		text = evd_status_text(status);
	hint_for_status(status, ctl->subject, hint);
	if (status == EVD_STATUS_HANDLER || strstr(text, "eventctl "))
		*hint = '\0';
	return ctl_fail_text(ctl, status, text, hint);
}

static void
note(struct ctl *ctl, const char *format, va_list ap)
{
	char text[1024];

	vsnprintf(text, sizeof(text), format, ap);
	fputs("eventctl: ", ctl->err);
	escape_text(ctl->err, text);
	fputc('\n', ctl->err);
}

void
ctl_note(struct ctl *ctl, const char *format, ...)
{
	va_list ap;

	if (ctl->quiet)
		return;
	va_start(ap, format);
	note(ctl, format, ap);
	va_end(ap);
}

void
ctl_detail(struct ctl *ctl, const char *format, ...)
{
	va_list ap;

	if (!ctl->verbose)
		return;
	va_start(ap, format);
	note(ctl, format, ap);
	va_end(ap);
}

static int
fail_output(struct ctl *ctl, int err)
{
	if (err == EPIPE)
		return CTL_EXIT_PIPE;
	ctl->as_json = false; /* there is nowhere to write it */
	return ctl_fail(ctl, EVD_STATUS_IO, "cannot write the output: %s",
		strerror(err));
}

/* A write that failed before has left no reason: the next one has it, too. */
static int
ask_why(FILE *f)
{
	int fd = fileno(f);

	return fd >= 0 && write(fd, "\n", 1) < 0 ? errno : EIO;
}

/* It is told once. */
int
ctl_flush(struct ctl *ctl)
{
	errno = 0;
	if (ctl->output_code || (fflush(ctl->out) == 0 && !ferror(ctl->out)))
		return ctl->output_code;
	ctl->output_code = fail_output(ctl, errno ? errno : ask_why(ctl->out));
	return ctl->output_code;
}
