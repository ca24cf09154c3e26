/* eventctl from the command line to the exit code: see ctl.h. One thread. */
#include "ctl.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "help.h"
#include "hint.h"
#include "when.h"

bool
number_parse(const char *text, uint64_t *value)
{
	uint64_t sum = 0;
	const char *p = text;

	for (; *p >= '0' && *p <= '9'; p++)
		if (__builtin_mul_overflow(sum, 10, &sum) ||
			__builtin_add_overflow(sum, (uint64_t)(*p - '0'), &sum))
			return false;
	if (p == text || *p)
		return false;
	*value = sum;
	return true;
}

int
ctl_count(struct ctl *ctl, enum option_id id, uint64_t *value)
{
	const char *text = ctl_value(ctl, id);

	if (!text)
		return 0;
	if (!number_parse(text, value) || *value == 0)
		return ctl_usage(ctl,
			"--%s takes a whole number from 1, not '%s'",
			option_specs[id].name, text);
	return 0;
}

uint32_t
ctl_if_taken(const struct ctl *ctl)
{
	const char *word = ctl_value(ctl, OPT_IF_TAKEN);

	return word ? (uint32_t)values_index(
			      option_specs[OPT_IF_TAKEN].values, word)
		    : EVD_TAKEN_REFUSE;
}

int
ctl_span_ms(struct ctl *ctl, enum option_id id, uint64_t *value)
{
	const char *text = ctl_value(ctl, id);
	int64_t ns;

	if (!text)
		return 0;
	if (span_parse(text, &ns) < 0)
		return ctl_usage(ctl,
			"--%s takes a span of time like 5s, 250ms or "
			"'1h 30min', not '%s'",
			option_specs[id].name, text);
	*value = (uint64_t)ns / 1000000 + ((uint64_t)ns % 1000000 != 0);
	return 0;
}

#define NAME_CHARACTERS \
	"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_./-"

int
ctl_check_name(struct ctl *ctl, const char *what, const char *name, size_t max)
{
	size_t size = strlen(name);

	if (size > 0 && size <= max && strspn(name, NAME_CHARACTERS) == size)
		return 0;
	if (size > max)
		return ctl_usage(ctl, "the %s is %zu bytes long, %zu at most",
			what, size, max);
	return ctl_usage(ctl, "'%s' is no %s: those are of A-Z a-z 0-9 _ . / -",
		name, what);
}

int
ctl_check_event(struct ctl *ctl)
{
	int r = ctl_check_name(ctl, "alias", ctl_word(ctl, 0), EVD_ALIAS_MAX);

	if (r)
		return r;
	return ctl_check_name(ctl, "event", ctl_word(ctl, 1), EVD_EVENT_MAX);
}

static int
init_timeout(struct ctl *ctl)
{
	const char *text = ctl_value(ctl, OPT_TIMEOUT);
	uint64_t ms = CTL_TIMEOUT_MS;
	int r;

	ctl->timeout_given = text != NULL;
	if (text && strcmp(text, "infinity") == 0) {
		ctl->timeout_ms = -1;
		return 0;
	}
	r = ctl_span_ms(ctl, OPT_TIMEOUT, &ms);
	if (r)
		return r;
	if (ms == 0 || ms > INT_MAX)
		return ctl_usage(ctl,
			"--timeout takes 1ms to 24days or infinity, not '%s'",
			text);
	ctl->timeout_ms = (int)ms;
	return 0;
}

static void
init_color(struct ctl *ctl, bool color_out)
{
	const char *when = ctl_value(ctl, OPT_COLOR);

	ctl->color = color_out;
	if (when && strcmp(when, "auto") != 0)
		ctl->color = strcmp(when, "always") == 0;
}

int
ctl_init(struct ctl *ctl, const struct args *args, FILE *out, FILE *err,
	bool color_out)
{
	memset(ctl, 0, sizeof(*ctl));
	ctl->args = args;
	ctl->out = out;
	ctl->err = err;
	json_init(&ctl->json, out);
	ctl->as_json = ctl_has(ctl, OPT_JSON);
	ctl->legend = !ctl_has(ctl, OPT_NO_LEGEND);
	ctl->quiet = ctl_has(ctl, OPT_QUIET);
	ctl->verbose = ctl_has(ctl, OPT_VERBOSE) && !ctl->quiet;
	init_color(ctl, color_out);
	if (ctl_has(ctl, OPT_USER) + ctl_has(ctl, OPT_SYSTEM) +
			ctl_has(ctl, OPT_SOCKET) >
		1)
		return ctl_usage(ctl,
			"--socket, --user and --system exclude each other");
	return init_timeout(ctl);
}

void
ctl_deinit(struct ctl *ctl)
{
	ctl->evd = evd_free(ctl->evd);
}

/* ---- connecting ---- */

static int
select_socket(struct ctl *ctl)
{
	const char *path = ctl_value(ctl, OPT_SOCKET);

	if (path)
		return evd_set_socket(ctl->evd, path);
	if (ctl_has(ctl, OPT_USER))
		return evd_set_user_socket(ctl->evd, true);
	if (ctl_has(ctl, OPT_SYSTEM))
		return evd_set_user_socket(ctl->evd, false);
	return 0;
}

int
ctl_handle(struct ctl *ctl)
{
	int r;

	if (ctl->evd)
		return 0;
	ctl->evd = evd_new();
	if (!ctl->evd)
		return ctl_fail(ctl, EVD_STATUS_NO_MEMORY, "out of memory");
	r = select_socket(ctl);
	if (r == -ENOENT)
		return ctl_usage(
			ctl, "--user needs $XDG_RUNTIME_DIR to be set");
	if (r < 0)
		return ctl_usage(ctl, "%s", evd_last_error(ctl->evd));
	evd_set_name(ctl->evd, "eventctl");
	if (evd_set_memfd(ctl->evd, true))
		return ctl_fail(ctl, EVD_STATUS_NO_MEMORY, "out of memory");
	evd_set_timeout(ctl->evd, ctl->timeout_ms);
	return 0;
}

uint64_t
ctl_max_payload(const struct ctl *ctl)
{
	uint64_t bytes = evd_max_payload(ctl->evd);
	uint64_t memfd = evd_max_memfd(ctl->evd);

	return bytes > memfd ? bytes : memfd;
}

static int
connect_status(int err)
{
	switch (err) {
	case EACCES:
	case EPERM:
		return EVD_STATUS_DENIED;
	case ETIMEDOUT:
		return EVD_STATUS_TIMEOUT;
	case EPROTO:
		return EVD_STATUS_PROTOCOL;
	case ENAMETOOLONG:
	case EINVAL:
		return EVD_STATUS_INVALID;
	case ENOMEM:
		return EVD_STATUS_NO_MEMORY;
	default:
		return EVD_STATUS_UNAVAILABLE;
	}
}

/* The text names the socket in any case. */
static int
fail_connect(struct ctl *ctl, int err)
{
	const char *path = evd_socket(ctl->evd);
	const char *why = evd_last_error(ctl->evd);
	char hint[HINT_SIZE], text[1024];

	if (!path)
		return ctl_fail(ctl, connect_status(err), "%s", why);
	if (strstr(why, path))
		snprintf(text, sizeof(text), "%s", why);
	else
		snprintf(text, sizeof(text), "cannot reach eventd at %s: %s",
			path, *why ? why : strerror(err));
	hint_for_connect(err, path, ctl_has(ctl, OPT_USER), hint);
	return ctl_fail_text(ctl, connect_status(err), text, hint);
}

int
ctl_connect(struct ctl *ctl)
{
	int r = ctl_handle(ctl);

	if (r)
		return r;
	r = evd_connect(ctl->evd, ctl->timeout_ms);
	return r < 0 ? fail_connect(ctl, -r) : 0;
}

/* ---- main ---- */

/* NO_COLOR, see no-color.org. */
static bool
may_color(FILE *out)
{
	const char *no_color = getenv("NO_COLOR"), *term = getenv("TERM");

	if (no_color && *no_color)
		return false;
	return fileno(out) >= 0 && isatty(fileno(out)) && term &&
	       strcmp(term, "dumb") != 0;
}

static void
print_version(struct ctl *ctl)
{
	struct json *j = &ctl->json;

	if (!ctl->as_json) {
		fprintf(ctl->out, "eventctl %s\n", EVD_VERSION);
		return;
	}
	json_object(j, NULL);
	json_string(j, "eventctl", EVD_VERSION);
	json_object_end(j);
	json_line_end(j);
}

static int
run(struct ctl *ctl)
{
	const struct verb *verb = ctl->args->verb;

	if (ctl_has(ctl, OPT_HELP)) {
		help_print(ctl, verb);
		return 0;
	}
	if (ctl_has(ctl, OPT_VERSION)) {
		print_version(ctl);
		return 0;
	}
	if (!verb)
		return ctl_usage(ctl, "no verb; eventctl help lists them");
	return verb->run(ctl);
}

int
ctl_main(int argc, char *argv[], FILE *out, FILE *err)
{
	char error[ARGS_ERROR_SIZE];
	struct args args;
	struct ctl ctl;
	bool parsed = args_parse(&args, argc, argv, error) == 0;
	int code, flushed;

	code = ctl_init(&ctl, &args, out, err, may_color(out));
	if (!parsed)
		code = ctl_usage(&ctl, "%s", error);
	else if (code == 0)
		code = run(&ctl);
	flushed = ctl_flush(&ctl);
	ctl_deinit(&ctl);
	args_deinit(&args);
	return code ? code : flushed;
}
