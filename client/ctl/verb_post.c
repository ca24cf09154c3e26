/* eventctl post: see post.h. One thread. */
#include "post.h"

#include <inttypes.h>
#include <string.h>

#include "verb.h"

static void
print_json(const struct post *post, struct ctl *ctl, size_t size)
{
	struct json *j = &ctl->json;

	json_object(j, NULL);
	json_string(j, "alias", post->alias);
	json_string(j, "event", post->event);
	json_string(j, "level", post->level);
	json_uint(j, "size", size);
	if (post->opt.flags & EVD_POST_TRACE)
		json_id(j, "id", evd_traced_id(ctl->evd));
	json_object_end(j);
	json_line_end(j);
}

static int
post_one(struct post *post, struct ctl *ctl)
{
	size_t size;
	char *data;
	int r;

	r = payload_read(
		&post->payload, ctl, ctl_max_payload(ctl), &data, &size);
	if (r)
		return r;
	r = evd_post_wait(
		ctl->evd, post->alias, post->event, data, size, &post->opt);
	if (r < 0)
		return ctl_fail_evd(ctl);
	if (ctl->as_json) {
		print_json(post, ctl, size);
		return 0;
	}
	if (post->opt.flags & EVD_POST_TRACE)
		fprintf(ctl->out, "%" PRIu64 "\n", evd_traced_id(ctl->evd));
	else
		ctl_detail(ctl, "%s %s: %zu bytes %s", post->alias, post->event,
			size, post->level);
	return 0;
}

static int
parse_options(struct post *post, struct ctl *ctl)
{
	const char *values = option_specs[OPT_WAIT].values;

	post->alias = ctl->subject = ctl_word(ctl, 0);
	post->event = ctl_word(ctl, 1);
	post->level = ctl_value(ctl, OPT_WAIT);
	if (!post->level)
		post->level = ctl_has(ctl, OPT_STORED) ? "durable" : "accepted";
	post->opt.size = sizeof(post->opt);
	post->opt.level = (uint32_t)values_index(values, post->level);
	post->opt.flags = (ctl_has(ctl, OPT_NO_WAIT) ? EVD_POST_NO_WAIT : 0) |
			  (ctl_has(ctl, OPT_PRINT_ID) ? EVD_POST_TRACE : 0) |
			  (ctl_has(ctl, OPT_STORED) ? EVD_POST_STORED : 0);
	post->opt.timeout_ms = ctl->timeout_ms;
	post->opt.key = ctl_value(ctl, OPT_KEY);
	return ctl_check_event(ctl);
}

static int
check_key(struct ctl *ctl)
{
	const char *key = ctl_value(ctl, OPT_KEY);

	if (key && (!*key || strlen(key) > EVD_KEY_MAX))
		return ctl_usage(ctl, "--key takes 1 to %d bytes", EVD_KEY_MAX);
	if (key && (ctl_has(ctl, OPT_LINES) || ctl_has(ctl, OPT_NULL)))
		return ctl_usage(ctl, "--key is for one event");
	return 0;
}

static int
run(struct post *post, struct ctl *ctl)
{
	int r = parse_options(post, ctl);

	if (r == 0)
		r = check_key(ctl);
	if (r == 0)
		r = send_options(ctl, &post->opt.priority, &post->opt.ttl_ms);
	if (r == 0)
		r = headers_init(&post->headers, ctl);
	if (r == 0)
		r = payload_open(&post->payload, ctl, 2);
	if (r == 0)
		r = ctl_connect(ctl);
	if (r)
		return r;
	post->opt.headers = post->headers.at;
	post->opt.n_headers = post->headers.n;
	return post->payload.records ? post_stream(post, ctl)
				     : post_one(post, ctl);
}

/* Is any of the options given that only an event due later has? */
static bool
is_later(struct ctl *ctl)
{
	static const enum option_id later[] = {OPT_IN, OPT_AT, OPT_CALENDAR,
		OPT_EVERY, OPT_ZONE, OPT_MISFIRE, OPT_TIMER_NAME, OPT_SLACK,
		OPT_CLOCK};

	for (size_t i = 0; i < sizeof(later) / sizeof(later[0]); i++)
		if (ctl_has(ctl, later[i]))
			return true;
	return false;
}

int
verb_post(struct ctl *ctl)
{
	struct post post = {.payload.fd = -1};
	int r;

	if (is_later(ctl)) {
		if (ctl_has(ctl, OPT_KEY) || ctl_has(ctl, OPT_PRINT_ID))
			return ctl_usage(ctl,
				"an event that is sent later has no --%s",
				ctl_has(ctl, OPT_KEY) ? "key" : "print-id");
		return later_run(ctl);
	}
	r = run(&post, ctl);
	payload_deinit(&post.payload);
	headers_deinit(&post.headers);
	return r;
}
