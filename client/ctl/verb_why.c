/* eventctl why: what became of an event. One thread. */
#include <inttypes.h>
#include <string.h>

#include "ctl.h"
#include "text.h"
#include "when.h"

enum { SPAN_TEXT = 32 };

static void
write_json(struct json *j, uint64_t id, const struct evd_line *line)
{
	int step = evd_line_step(line);

	json_object(j, NULL);
	json_id(j, "id", id);
	json_time(j, "time", evd_line_time_ns(line));
	json_string(j, "step", evd_line_word(line));
	json_string(j, "alias", evd_line_alias(line));
	json_string(j, "event", evd_line_event(line));
	json_id(j, "session", evd_line_session(line));
	json_uint(j, "attempt", evd_line_attempt(line));
	if (step == EVD_STEP_ENDED || step == EVD_STEP_LETTER) {
		json_string(j, "end", evd_line_end(line));
		json_int(j, "status", evd_line_status(line));
	}
	if (step == EVD_STEP_ENDED || step == EVD_STEP_RETURNED)
		json_uint(j, "took_ns", evd_line_took_ns(line));
	if (step == EVD_STEP_LETTER)
		json_id(j, "letter", evd_line_letter(line));
	if (*evd_line_text(line))
		json_string(j, "text", evd_line_text(line));
	json_object_end(j);
	json_line_end(j);
}

/* "12.3 ms" */
static const char *
span_text(uint64_t ns, char out[SPAN_TEXT])
{
	if (ns >= 1000000000)
		snprintf(out, SPAN_TEXT, "%.3f s", (double)ns / 1e9);
	else if (ns >= 1000000)
		snprintf(out, SPAN_TEXT, "%.1f ms", (double)ns / 1e6);
	else
		snprintf(out, SPAN_TEXT, "%.1f us", (double)ns / 1e3);
	return out;
}

static void
print_ended(FILE *out, const struct evd_line *line)
{
	char span[SPAN_TEXT];

	fprintf(out, "%s", evd_line_end(line));
	if (evd_line_session(line))
		fprintf(out, " by session %" PRIu64, evd_line_session(line));
	if (evd_line_took_ns(line))
		fprintf(out, ", attempt %u, in %s", evd_line_attempt(line) + 1u,
			span_text(evd_line_took_ns(line), span));
}

static void
print_step(FILE *out, const struct evd_line *line)
{
	char span[SPAN_TEXT];

	switch ((enum evd_step)evd_line_step(line)) {
	case EVD_STEP_ACCEPTED:
		fprintf(out, "accepted from session %" PRIu64,
			evd_line_session(line));
		break;
	case EVD_STEP_DELIVERED:
		fprintf(out, "delivered, attempt %u, to session %" PRIu64,
			evd_line_attempt(line) + 1u, evd_line_session(line));
		break;
	case EVD_STEP_RETURNED:
		fprintf(out, "back in the mailbox");
		if (evd_line_took_ns(line))
			fprintf(out, " in %s",
				span_text(evd_line_took_ns(line), span));
		break;
	case EVD_STEP_ENDED:
		print_ended(out, line);
		break;
	case EVD_STEP_RESTORED:
		fprintf(out, "found in the store, attempt %u to come",
			evd_line_attempt(line) + 1u);
		break;
	case EVD_STEP_LETTER:
		fprintf(out, "kept as dead letter %" PRIu64 ", %s",
			evd_line_letter(line), evd_line_end(line));
		break;
	case EVD_STEP_REPEATED:
		fprintf(out, "not accepted again, its key was accepted before");
		break;
	default:
		fprintf(out, "%s", evd_line_word(line));
	}
}

static void
print_line(struct ctl *ctl, const struct evd_line *line)
{
	char when[WHEN_TEXT_SIZE];

	when_format_local(evd_line_time_ns(line), when, sizeof(when));
	fprintf(ctl->out, "%s  %s %s: ", when, evd_line_alias(line),
		evd_line_event(line));
	print_step(ctl->out, line);
	if (*evd_line_text(line)) {
		fprintf(ctl->out, " (");
		escape_text(ctl->out, evd_line_text(line));
		fprintf(ctl->out, ")");
	}
	fprintf(ctl->out, "\n");
}

int
verb_why(struct ctl *ctl)
{
	const struct evd_line *line;
	struct evd_history *h;
	uint64_t id;
	int r;

	if (!number_parse(ctl_word(ctl, 0), &id) || !id)
		return ctl_usage(
			ctl, "'%s' is no id of an event", ctl_word(ctl, 0));
	ctl->subject = ctl_word(ctl, 0);
	r = ctl_connect(ctl);
	if (r)
		return r;
	if (evd_why(ctl->evd, id, &h) < 0)
		return ctl_fail_text(ctl, evd_last_status(ctl->evd),
			evd_last_error(ctl->evd), NULL);
	for (size_t i = 0; (line = evd_history_at(h, i)); i++) {
		if (ctl->as_json)
			write_json(&ctl->json, id, line);
		else
			print_line(ctl, line);
	}
	evd_history_free(h);
	return 0;
}
