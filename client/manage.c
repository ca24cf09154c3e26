/* Manage: reload, restart, ping. Belongs to the thread that uses the handle;
 * what they return to whoever owns it. */
#include <stddef.h>
#include <string.h>

#include "internal.h"

/* struct evd_changes is a struct response with a Reloaded. */
static const Eventd__V1__Reloaded *
reloaded(const struct evd_changes *ch)
{
	return ((const struct response *)ch)->pb->reloaded;
}

int
evd_reload(struct evd *c, bool preview, struct evd_changes **changes)
{
	Eventd__V1__Request request = EVENTD__V1__REQUEST__INIT;
	Eventd__V1__Reload reload = EVENTD__V1__RELOAD__INIT;
	struct response *response;
	int r;

	reload.preview = preview;
	request.verb_case = EVENTD__V1__REQUEST__VERB_RELOAD;
	request.reload = &reload;
	r = evd__request_for(
		c, &request, EVENTD__V1__RESPONSE__RESULT_RELOADED, &response);
	if (r)
		return r;
	if (changes)
		*changes = (struct evd_changes *)response;
	else
		evd__response_free(response);
	return 0;
}

static size_t
names_of(const struct evd_changes *ch, int change, char ***names)
{
	const Eventd__V1__Reloaded *r = reloaded(ch);

	switch (change) {
	case EVD_CHANGE_ADDED:
		*names = r->added;
		return r->n_added;
	case EVD_CHANGE_CHANGED:
		*names = r->changed;
		return r->n_changed;
	case EVD_CHANGE_REMOVED:
		*names = r->removed;
		return r->n_removed;
	default:
		return 0;
	}
}

size_t
evd_changes_count(const struct evd_changes *ch, int change)
{
	char **names;

	return names_of(ch, change, &names);
}

const char *
evd_changes_name(const struct evd_changes *ch, int change, size_t i)
{
	char **names;

	return i < names_of(ch, change, &names) ? names[i] : NULL;
}

uint32_t
evd_changes_unchanged(const struct evd_changes *ch)
{
	return reloaded(ch)->unchanged;
}

struct evd_changes *
evd_changes_free(struct evd_changes *ch)
{
	evd__response_free((struct response *)ch);
	return NULL;
}

int
evd_set_executor(struct evd *c, const char *alias, const char *executor)
{
	Eventd__V1__Request request = EVENTD__V1__REQUEST__INIT;
	Eventd__V1__SetExecutor set = EVENTD__V1__SET_EXECUTOR__INIT;
	int r;

	EVD_CHECK(c);
	r = evd__alias_check(c, alias);
	if (!r)
		r = evd__alias_check(c, executor);
	if (r)
		return r;
	set.alias = (char *)(uintptr_t)alias;
	set.executor = (char *)(uintptr_t)executor;
	request.verb_case = EVENTD__V1__REQUEST__VERB_SET_EXECUTOR;
	request.set_executor = &set;
	return evd__request(c, &request, 0, NULL);
}

int
evd_restart(struct evd *c, const char *alias)
{
	Eventd__V1__Request request = EVENTD__V1__REQUEST__INIT;
	Eventd__V1__Restart restart = EVENTD__V1__RESTART__INIT;
	int r;

	EVD_CHECK(c);
	r = evd__alias_check(c, alias);
	if (r)
		return r;
	restart.alias = (char *)(uintptr_t)alias;
	request.verb_case = EVENTD__V1__REQUEST__VERB_RESTART;
	request.restart = &restart;
	return evd__request(c, &request, 0, NULL);
}

static void
ping_request(Eventd__V1__Request *request, Eventd__V1__Ping *ping)
{
	eventd__v1__request__init(request);
	eventd__v1__ping__init(ping);
	request->verb_case = EVENTD__V1__REQUEST__VERB_PING;
	request->ping = ping;
}

int
evd_ping(struct evd *c, int64_t *rtt_ns)
{
	Eventd__V1__Request request;
	Eventd__V1__Ping ping;
	int64_t start;
	int r;

	EVD_CHECK(c);
	ping_request(&request, &ping);
	start = evd__now_ns();
	r = evd__request(c, &request, 0, NULL);
	if (!r && rtt_ns)
		*rtt_ns = evd__now_ns() - start;
	return r;
}

int64_t
evd_ping_start(struct evd *c)
{
	Eventd__V1__Request request;
	Eventd__V1__Ping ping;

	EVD_CHECK(c);
	ping_request(&request, &ping);
	return evd__request_send(c, &request, 0, REQUEST_ASYNC);
}
