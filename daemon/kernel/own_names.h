#pragma once
/* Own names: the aliases that a session has from its spec, and all that it
 * holds. The home's thread; for the kernel's own files. */
struct session;

/* All aliases of the spec, or a place in line, or the failed state with the
 * reason. */
void names_of_spec_take(struct session *s);
/* Let those go that the spec, a new one, does not have; posters never miss the
 * others. */
void names_of_spec_keep(struct session *s);
void names_drop_all(struct session *s);
