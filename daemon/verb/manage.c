/* The verb reload, for those who may manage the daemon. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "verb/daemon_ops.h"
#include "verb/gather.h"

void
reload_diff_deinit(struct reload_diff *diff)
{
	char **lists[] = {diff->added, diff->changed, diff->removed};
	size_t n[] = {diff->n_added, diff->n_changed, diff->n_removed};

	for (size_t i = 0; i < 3; i++) {
		for (size_t j = 0; j < n[i]; j++)
			free(lists[i][j]);
		free(lists[i]);
	}
	memset(diff, 0, sizeof(*diff));
}

/* ---- reload ------------------------------------------------------------ */

static void
reload_done(
	void *arg, int status, const char *text, const struct reload_diff *diff)
{
	struct gather *g = arg;
	Eventd__V1__Reloaded reloaded = EVENTD__V1__RELOADED__INIT;

	g->status = status;
	if (status) {
		snprintf(g->text, sizeof(g->text), "%s", text ? text : "");
	} else {
		reloaded.added = diff->added;
		reloaded.n_added = diff->n_added;
		reloaded.changed = diff->changed;
		reloaded.n_changed = diff->n_changed;
		reloaded.removed = diff->removed;
		reloaded.n_removed = diff->n_removed;
		reloaded.unchanged = (uint32_t)diff->n_unchanged;
		g->response.result_case = EVENTD__V1__RESPONSE__RESULT_RELOADED;
		g->response.reloaded = &reloaded;
	}
	gather_answer(g);
}

void
verb_reload(struct peer *p, const Eventd__V1__Request *r)
{
	const struct peer_shared *shared = p->shared;
	struct gather *g;

	if (!verb_may_manage(p, r->id))
		return;
	if (!shared->daemon || !shared->daemon->reload) {
		verb_refuse(p, r->id, EVD_STATUS_UNSUPPORTED,
			"nothing here can be reloaded");
		return;
	}
	g = gather_new(p, r->id);
	if (!g)
		return;
	shared->daemon->reload(shared->daemon_data, g->home, r->reload->preview,
		reload_done, g);
}
