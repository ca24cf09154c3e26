/* Life: spawn and stop. Belongs to the thread that uses the handle. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

static char *
text(const char *s)
{
	return s ? (char *)(uintptr_t)s : (char *)"";
}

static int
aliases_check(struct evd *c, const struct evd_spawn_options *o)
{
	int r = 0;

	for (size_t i = 0; i < o->n_aliases && !r; i++)
		r = evd__alias_check(c, o->aliases[i]);
	return r;
}

/* The pointers and the parameters, in one piece to be freed. */
static Eventd__V1__Header **
params_make(const struct evd_spawn_options *o)
{
	size_t n = o->n_params;
	Eventd__V1__Header **list =
		calloc(n + 1, sizeof(*list) + sizeof(**list));
	Eventd__V1__Header *params;

	if (!list)
		return NULL;
	params = (Eventd__V1__Header *)(void *)(list + n + 1);
	for (size_t i = 0; i < n; i++) {
		eventd__v1__header__init(&params[i]);
		params[i].name = text(o->params[i].name);
		params[i].value.data = (uint8_t *)(uintptr_t)o->params[i].value;
		params[i].value.len = o->params[i].size;
		list[i] = &params[i];
	}
	return list;
}

static int
spawn(struct evd *c, Eventd__V1__Spawn *spawn, uint64_t *session)
{
	Eventd__V1__Request request = EVENTD__V1__REQUEST__INIT;
	struct response *response;
	int r;

	request.verb_case = EVENTD__V1__REQUEST__VERB_SPAWN;
	request.spawn = spawn;
	r = evd__request_for(
		c, &request, EVENTD__V1__RESPONSE__RESULT_SPAWNED, &response);
	if (r)
		return r;
	if (session)
		*session = response->pb->spawned->session;
	evd__response_free(response);
	return 0;
}

int
evd_spawn(
	struct evd *c, const struct evd_spawn_options *given, uint64_t *session)
{
	Eventd__V1__Spawn message = EVENTD__V1__SPAWN__INIT;
	struct evd_spawn_options all = {0}, *options = &all;
	Eventd__V1__Header **params;
	int r;

	EVD_CHECK(c);
	if (!given || given->size < offsetof(struct evd_spawn_options, tie))
		return evd__fail(c, EVD_STATUS_INVALID,
			"evd_spawn() needs options with their size");
	memcpy(&all, given,
		given->size < sizeof(all) ? given->size : sizeof(all));
	r = aliases_check(c, options);
	if (r)
		return r;
	params = params_make(options);
	if (!params)
		return evd__fail(c, EVD_STATUS_NO_MEMORY, "out of memory");
	message.file = text(options->file);
	message.script = text(options->script);
	message.plugin = text(options->plugin);
	message.aliases = (char **)(uintptr_t)options->aliases;
	message.n_aliases = options->n_aliases;
	message.params = params;
	message.n_params = options->n_params;
	message.tie = options->tie != 0;
	message.if_taken = (Eventd__V1__IfTaken)options->if_taken;
	message.allow_replace = options->allow_replace != 0;
	r = spawn(c, &message, session);
	free(params);
	return r;
}

int
evd_stop(struct evd *c, const char *alias)
{
	Eventd__V1__Request request = EVENTD__V1__REQUEST__INIT;
	Eventd__V1__Stop stop = EVENTD__V1__STOP__INIT;
	int r;

	EVD_CHECK(c);
	r = evd__alias_check(c, alias);
	if (r)
		return r;
	stop.alias = text(alias);
	request.verb_case = EVENTD__V1__REQUEST__VERB_STOP;
	request.stop = &stop;
	return evd__request(c, &request, 0, NULL);
}
