/* eventctl: see ctl.h. */
#include <fcntl.h>
#include <unistd.h>

#include "ctl.h"

/* A socket must not become what printf() writes to. Reading or writing what
 * was closed goes on to fail. */
static void
hold_standard_fds(void)
{
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
		if (fcntl(fd, F_GETFD) < 0)
			open("/dev/null",
				fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
}

int
main(int argc, char *argv[])
{
	hold_standard_fds();
	return ctl_main(argc, argv, stdout, stderr);
}
