#pragma once
/* Bus: the last words of a daemon whose store cannot be read. LMDB's file is
 * mapped, so that a failing disk shows as a signal, which ends the process: the
 * log is to say why. Any thread. */

/* From now on, once in a process is enough. */
void bus_explain(void);
