/* eventctl call: an event, and its reply on stdout. One thread. */
#include <string.h>
#include <unistd.h>

#include "ctl.h"
#include "later.h"
#include "payload.h"
#include "text.h"

static void
print_json(struct ctl *ctl, const void *data, size_t size)
{
	struct json *j = &ctl->json;

	json_object(j, NULL);
	json_string(j, "alias", ctl_word(ctl, 0));
	json_string(j, "event", ctl_word(ctl, 1));
	json_data(j, data, size);
	json_object_end(j);
	json_line_end(j);
}

/* A terminal gets what is safe to show, everything else the bytes. */
static void
print_reply(struct ctl *ctl, const char *data, size_t size)
{
	int fd = fileno(ctl->out);

	if (ctl->as_json) {
		print_json(ctl, data, size);
	} else if (ctl_has(ctl, OPT_RAW) || fd < 0 || !isatty(fd)) {
		fwrite(data, 1, size, ctl->out);
	} else if (size > 0) {
		escape_write(ctl->out, data, size, ESCAPE_KEEP_LINES);
		if (data[size - 1] != '\n')
			fputc('\n', ctl->out);
	}
}

static int
call(struct ctl *ctl, struct payload *payload, struct evd_call_options *opt)
{
	struct evd_event *reply;
	size_t size;
	char *data;
	int r;

	r = payload_read(payload, ctl, ctl_max_payload(ctl), &data, &size);
	if (r)
		return r;
	opt->size = sizeof(*opt);
	opt->timeout_ms = ctl->timeout_given ? ctl->timeout_ms : 0;
	r = evd_call_opt(ctl->evd, ctl_word(ctl, 0), ctl_word(ctl, 1), data,
		size, opt, &reply);
	if (r < 0)
		return ctl_fail_evd(ctl);
	print_reply(ctl, evd_event_data(reply), evd_event_size(reply));
	evd_event_free(reply);
	return 0;
}

int
verb_call(struct ctl *ctl)
{
	struct evd_call_options opt = {.size = 0};
	struct headers headers = {.n = 0};
	struct payload payload = {.fd = -1};
	int r;

	ctl->subject = ctl_word(ctl, 0);
	r = ctl_check_event(ctl);
	if (r == 0)
		r = headers_init(&headers, ctl);
	if (r == 0)
		r = send_options(ctl, &opt.priority, &opt.ttl_ms);
	if (r == 0)
		r = payload_open(&payload, ctl, 2);
	if (r == 0)
		r = ctl_connect(ctl);
	opt.headers = headers.at;
	opt.n_headers = headers.n;
	if (r == 0)
		r = call(ctl, &payload, &opt);
	headers_deinit(&headers);
	payload_deinit(&payload);
	return r;
}
