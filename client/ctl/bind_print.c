/* How bind shows an event: see bind.h. One thread. */
#include <inttypes.h>
#include <string.h>
#include <sys/wait.h>

#include "bind.h"
#include "text.h"

static void
write_headers(struct json *j, const struct evd_event *event)
{
	struct evd_header header;
	size_t name_size;

	if (evd_event_n_headers(event) == 0)
		return;
	json_array(j, "headers");
	for (size_t i = 0;
		evd_event_header_at(event, i, &header, &name_size) == 0; i++) {
		json_object(j, NULL);
		json_string_n(j, "name", header.name, name_size);
		json_data(j, header.value, header.size);
		json_object_end(j);
	}
	json_array_end(j);
}

static void
write_outcome(struct json *j, const struct outcome *outcome)
{
	int status = outcome->wait_status;

	if (WIFSIGNALED(status))
		json_int(j, "signal", WTERMSIG(status));
	else
		json_int(j, "exit", WEXITSTATUS(status));
	json_object(j, "output");
	json_data(j, outcome->output, outcome->size);
	json_object_end(j);
}

static void
print_json(struct bind *b, const struct evd_event *event,
	const struct outcome *outcome)
{
	struct json *j = &b->ctl->json;

	json_object(j, NULL);
	json_string(j, "alias", evd_event_alias(event));
	json_string(j, "event", evd_event_name(event));
	json_id(j, "id", evd_event_id(event));
	json_id(j, "from", evd_event_from(event));
	if (evd_event_call(event))
		json_id(j, "call", evd_event_call(event));
	if (evd_event_attempt(event))
		json_uint(j, "attempt", evd_event_attempt(event));
	if (evd_event_due_ns(event))
		json_time(j, "due", evd_event_due_ns(event));
	if (evd_event_late_ns(event))
		json_uint(j, "late_ns", evd_event_late_ns(event));
	if (evd_event_priority(event) == EVD_URGENT)
		json_string(j, "priority", "urgent");
	if (evd_event_deadline_ms(event))
		json_uint(j, "deadline_ms", evd_event_deadline_ms(event));
	write_headers(j, event);
	json_data(j, evd_event_data(event), evd_event_size(event));
	if (outcome)
		write_outcome(j, outcome);
	json_object_end(j);
	json_line_end(j);
}

static void
print_raw(struct bind *b, const struct evd_event *event)
{
	fwrite(evd_event_data(event), 1, evd_event_size(event), b->ctl->out);
	fputc(ctl_has(b->ctl, OPT_NULL_OUT) ? '\0' : '\n', b->ctl->out);
}

static void
print_line(struct bind *b, const struct evd_event *event)
{
	FILE *out = b->ctl->out;

	if (b->ctl->args->n_words > 1) {
		escape_text(out, evd_event_alias(event));
		fputc(' ', out);
	}
	escape_text(out, evd_event_name(event));
	if (evd_event_size(event) > 0)
		fputc(' ', out);
	escape_write(out, evd_event_data(event), evd_event_size(event), 0);
	fputc('\n', out);
}

void
bind_print(struct bind *b, const struct evd_event *event,
	const struct outcome *outcome)
{
	if (b->ctl->as_json)
		print_json(b, event, outcome);
	else if (ctl_has(b->ctl, OPT_RAW))
		print_raw(b, event);
	else
		print_line(b, event);
}

int
bind_print_gap(struct bind *b, const struct evd_event *event)
{
	struct json *j = &b->ctl->json;

	if (!b->ctl->as_json) {
		ctl_note(b->ctl,
			"%s: %" PRIu64 " events were dropped, %" PRIu64
			" to %" PRIu64,
			evd_event_alias(event), evd_event_lost(event),
			evd_event_gap_from(event), evd_event_gap_to(event));
		return 0;
	}
	json_object(j, NULL);
	json_string(j, "alias", evd_event_alias(event));
	json_uint(j, "dropped", evd_event_lost(event));
	json_id(j, "first", evd_event_gap_from(event));
	json_id(j, "last", evd_event_gap_to(event));
	json_object_end(j);
	json_line_end(j);
	return bind_output_flush(b);
}
