/* Replay: run a fuzz target over the files of a directory, in builds without
 * libFuzzer. At least one file must be there. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { INPUT_MAX = 1 << 20 };

static int
replay(const char *dir, const char *name)
{
	static uint8_t data[INPUT_MAX];
	char path[4096];
	uint8_t *exact;
	size_t size;
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	f = fopen(path, "rb");
	if (!f) {
		perror(path);
		return -1;
	}
	size = fread(data, 1, sizeof(data), f);
	fclose(f);
	/* a block of just this size, so that reading past it is noticed */
	exact = malloc(size ? size : 1);
	if (!exact)
		return -1;
	for (size_t i = 0; i < size; i++)
		exact[i] = data[i];
	LLVMFuzzerTestOneInput(exact, size);
	free(exact);
	return 0;
}

int
main(int argc, char **argv)
{
	const struct dirent *entry;
	DIR *dir = argc == 2 ? opendir(argv[1]) : NULL;
	int n = 0;

	if (!dir) {
		fprintf(stderr, "usage: %s DIRECTORY\n", argv[0]);
		return 2;
	}
	while ((entry = readdir(dir))) {
		if (entry->d_name[0] == '.')
			continue;
		if (replay(argv[1], entry->d_name))
			return 1;
		n++;
	}
	closedir(dir);
	printf("%d inputs\n", n);
	return n ? 0 : 1;
}
