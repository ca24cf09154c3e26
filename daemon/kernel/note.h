#pragma once
/* Notes: messages of a scheduler to another that somebody waits for, such as
 * what became of a post. Some are made ahead, from the first on, for times
 * without memory. The scheduler's thread. */
struct msg;
struct sched;

/* With @text, which may be NULL; one that was made ahead has none. NULL: out of
 * memory, and of those. */
struct msg *note_new(struct sched *s, const char *text);
void notes_deinit(struct sched *s);
