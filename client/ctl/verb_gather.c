/* eventctl gather: one question to many, a line for each answer. One thread. */
#include <stdlib.h>

#include "ctl.h"
#include "later.h"
#include "payload.h"
#include "text.h"

struct gather {
	struct headers headers;
	struct payload payload;
	struct evd_call_options opt;
	const char **aliases; /* owned; the strings are not */
	size_t n;
	struct evd_answers *answers;
};

static void
print_json(struct ctl *ctl, const struct evd_answers *a, size_t i)
{
	struct json *j = &ctl->json;
	int status = evd_answers_status(a, i);
	size_t size;
	const void *data = evd_answers_data(a, i, &size);

	json_object(j, NULL);
	json_string(j, "alias", evd_answers_alias(a, i));
	json_string(j, "event", ctl_word(ctl, 0));
	json_string(j, "status", evd_status_word(status));
	if (status)
		json_string_n(j, "text", data, size);
	else
		json_data(j, data, size);
	json_object_end(j);
	json_line_end(j);
}

static void
print_line(struct ctl *ctl, const struct evd_answers *a, size_t i)
{
	size_t size;
	const void *data = evd_answers_data(a, i, &size);
	bool ok = evd_answers_status(a, i) == 0;
	FILE *out = ok ? ctl->out : ctl->err;

	if (!ok)
		fprintf(out, "eventctl: gather: ");
	escape_text(out, evd_answers_alias(a, i));
	fputs(ok ? " " : ": ", out);
	escape_write(out, data, size, 0);
	fputc('\n', out);
}

/* Who was cut off since others had answered is no failure. */
static int
exit_code(const struct evd_answers *a)
{
	int status;

	for (size_t i = 0; i < evd_answers_count(a); i++) {
		status = evd_answers_status(a, i);
		if (status && status != EVD_STATUS_CANCELLED)
			return evd_status_exit(status);
	}
	return 0;
}

static int
print_all(struct ctl *ctl, const struct gather *g, int n_good)
{
	const struct evd_answers *a = g->answers;

	for (size_t i = 0; i < evd_answers_count(a); i++) {
		if (ctl->as_json)
			print_json(ctl, a, i);
		else if (evd_answers_status(a, i) != EVD_STATUS_CANCELLED)
			print_line(ctl, a, i);
	}
	if (g->opt.n_wanted && (uint32_t)n_good >= g->opt.n_wanted)
		return 0;
	return exit_code(a);
}

static int
parse(struct gather *g, struct ctl *ctl)
{
	const char *alias;
	uint64_t wanted = 0;
	int r = ctl_check_name(ctl, "event", ctl_word(ctl, 0), EVD_EVENT_MAX);

	while ((alias = ctl_word(ctl, g->n + 1)) && r == 0) {
		r = ctl_check_name(ctl, "alias", alias, EVD_ALIAS_MAX);
		g->n++;
	}
	g->aliases = calloc(g->n, sizeof(*g->aliases));
	if (r == 0 && !g->aliases)
		r = ctl_fail(ctl, EVD_STATUS_NO_MEMORY, "out of memory");
	for (size_t i = 0; r == 0 && i < g->n; i++)
		g->aliases[i] = ctl_word(ctl, i + 1);
	if (r == 0)
		r = ctl_count(ctl, OPT_WANTED, &wanted);
	if (r == 0 && ctl_has(ctl, OPT_WANTED) && wanted > g->n)
		r = ctl_usage(ctl, "--wanted is more than are asked");
	g->opt.n_wanted = (uint32_t)wanted;
	return r;
}

static int
ask(struct gather *g, struct ctl *ctl)
{
	size_t size;
	char *data;
	int r;

	r = payload_read(&g->payload, ctl, ctl_max_payload(ctl), &data, &size);
	if (r)
		return r;
	g->opt.size = sizeof(g->opt);
	g->opt.timeout_ms = ctl->timeout_given ? ctl->timeout_ms : 0;
	g->opt.headers = g->headers.at;
	g->opt.n_headers = g->headers.n;
	r = evd_gather(ctl->evd, g->aliases, g->n, ctl_word(ctl, 0), data, size,
		&g->opt, &g->answers);
	return r < 0 ? ctl_fail_evd(ctl) : print_all(ctl, g, r);
}

int
verb_gather(struct ctl *ctl)
{
	struct gather g = {.payload.fd = -1};
	int r = parse(&g, ctl);

	if (r == 0)
		r = headers_init(&g.headers, ctl);
	if (r == 0)
		r = send_options(ctl, &g.opt.priority, &g.opt.ttl_ms);
	if (r == 0)
		r = payload_open(&g.payload, ctl, ctl->args->n_words);
	if (r == 0)
		r = ctl_connect(ctl);
	if (r == 0)
		r = ask(&g, ctl);
	evd_answers_free(g.answers);
	payload_deinit(&g.payload);
	headers_deinit(&g.headers);
	free(g.aliases);
	return r;
}
