#pragma once
/* A session's schedule: the calendars of its spec as delays to itself, named
 * for their events. They stay through crashes and restarts, and what comes
 * meanwhile waits in the mailbox. On the home's thread. */
struct session;

/* Make its delays be those of its spec: what is there already goes on, what is
 * new or changed is next due at its next time from now on. */
void schedule_arm(struct session *s);
