#include "kernel/own_names.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "kernel/alias.h"
#include "kernel/claim.h"
#include "kernel/life.h"

static const char *
taken_why(int r)
{
	if (r == ALIAS_E_TAKEN)
		return "is held by another session";
	if (r == CLAIM_E_FIXED)
		return "is held by another session, which does not let itself "
		       "be replaced (AllowReplace=)";
	return "cannot be taken";
}

void
names_of_spec_take(struct session *s)
{
	const struct session_spec *spec = s->spec;
	char *why = NULL;

	for (size_t i = 0; i < spec->n_aliases; i++) {
		const char *name = spec->aliases[i];
		int r;

		r = claim_make(
			s, &(struct claim_init){
				   .name = name,
				   .size = strlen(name),
				   .mode = (enum claim_mode)spec->if_taken,
				   .allow_replace = spec->allow_replace,
				   .stays = true,
			   });
		if (!r || r == CLAIM_E_QUEUED)
			continue;
		if (s->life == SESSION_FAILED)
			return; /* and why has been said */
		if (asprintf(&why, "the alias '%s' %s", name, taken_why(r)) < 0)
			why = NULL;
		log_err("session.failed", "session=\"%s\" reason=\"%s\"",
			spec->name ? spec->name : "", why ? why : "");
		life_set_reason(s, why); /* which may free it */
		session_enter(s, SESSION_FAILED);
		session_refuse_parked(s, EVD_STATUS_FAILED);
		return;
	}
}

static bool
spec_has_alias(const struct session_spec *spec, const struct alias *alias)
{
	for (size_t i = 0; i < spec->n_aliases; i++)
		if (!strcmp(spec->aliases[i], alias->name))
			return true;
	return false;
}

void
names_of_spec_keep(struct session *s)
{
	const struct session_spec *spec = s->spec;
	struct alias **link = &s->aliases, *alias;

	while ((alias = *link)) {
		if (spec_has_alias(spec, alias)) {
			link = &alias->sibling;
			continue;
		}
		*link = alias->sibling;
		claim_release(s, alias);
	}
}

void
names_drop_all(struct session *s)
{
	struct alias *alias;

	while ((alias = s->aliases)) {
		s->aliases = alias->sibling;
		claim_release(s, alias);
	}
}
