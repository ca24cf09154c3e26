/* --header NAME=VALUE, --priority, --ttl: see later.h. One thread. */
#include <stdlib.h>
#include <string.h>

#include "ctl.h"
#include "later.h"
#include "verb.h"

static int
header_parse(struct ctl *ctl, const char *text, struct evd_header *header)
{
	const char *equal = strchr(text, '=');
	char *name;

	if (!equal || equal == text)
		return ctl_usage(
			ctl, "--header takes NAME=VALUE, not '%s'", text);
	name = strndup(text, (size_t)(equal - text));
	if (!name)
		return ctl_fail(ctl, EVD_STATUS_NO_MEMORY, "out of memory");
	header->name = name;
	header->value = equal + 1;
	header->size = strlen(equal + 1);
	return ctl_check_name(ctl, "name of a header", name, EVD_EVENT_MAX);
}

int
headers_init(struct headers *h, struct ctl *ctl)
{
	const char *text;
	size_t n = 0;
	int r;

	memset(h, 0, sizeof(*h));
	while (args_value_at(ctl->args, OPT_HEADER, n))
		n++;
	if (n == 0)
		return 0;
	h->at = calloc(n, sizeof(*h->at));
	if (!h->at)
		return ctl_fail(ctl, EVD_STATUS_NO_MEMORY, "out of memory");
	for (h->n = 0; h->n < n;) {
		text = args_value_at(ctl->args, OPT_HEADER, h->n);
		r = header_parse(ctl, text, &h->at[h->n++]);
		if (r)
			return r;
	}
	return 0;
}

void
headers_deinit(struct headers *h)
{
	for (size_t i = 0; i < h->n; i++)
		free((char *)h->at[i].name);
	free(h->at);
	memset(h, 0, sizeof(*h));
}

int
send_options(struct ctl *ctl, uint32_t *priority, uint32_t *ttl_ms)
{
	const char *word = ctl_value(ctl, OPT_PRIORITY);
	uint64_t ms = 0;
	int r;

	*priority = word ? (uint32_t)values_index(
				   option_specs[OPT_PRIORITY].values, word)
			 : EVD_NORMAL;
	r = ctl_span_ms(ctl, OPT_TTL, &ms);
	if (r)
		return r;
	if (ctl_has(ctl, OPT_TTL) && (ms == 0 || ms > UINT32_MAX))
		return ctl_usage(
			ctl, "--ttl takes a span above 0, up to 49 days");
	*ttl_ms = (uint32_t)ms;
	return 0;
}
