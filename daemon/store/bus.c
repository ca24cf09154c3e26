#include "store/bus.h"

#include <signal.h>
#include <unistd.h>

static struct sigaction before; /* the process's, as its signals are */

static void
on_bus(int sig, siginfo_t *info, void *context)
{
	static const char text[] =
		"eventd: fatal: a mapped file cannot be read: the disk of the "
		"store fails, or somebody has made its data.mdb shorter\n";
	ssize_t written = 0;

	(void)context;
	if (info->si_code > 0)
		written = write(STDERR_FILENO, text, sizeof(text) - 1);
	(void)written;
	sigaction(sig, &before, NULL); /* the instruction comes again */
	if (info->si_code <= 0)
		raise(sig);
}

void
bus_explain(void)
{
	struct sigaction action = {.sa_flags = SA_SIGINFO | SA_ONSTACK}, was;

	action.sa_sigaction = on_bus;
	sigemptyset(&action.sa_mask);
	if (sigaction(SIGBUS, NULL, &was) || was.sa_sigaction == on_bus)
		return;
	before = was;
	sigaction(SIGBUS, &action, NULL);
}
