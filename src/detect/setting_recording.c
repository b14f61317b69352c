/* setting_recording.c - what a recording was made on, by its tables. */
#include "detect/setting.h"
#include "events/tables.h"

static const char *text_of(const struct rec_tables *t, uint32_t string)
{
	size_t len;
	return strtab_get(&t->strings, string, &len);
}

void setting_add_recording(struct setting *s, const struct rec_tables *t)
{
	static const char *const metas[] = {"host", "kernel", "cpu", "cpus"};
	for (size_t i = 0; i < sizeof(metas) / sizeof(metas[0]); i++)
		setting_add(s, metas[i], rec_meta(t, metas[i]));
	setting_add(s, "eacgm", rec_meta(t, "version"));
	for (size_t i = 0; i < t->gpus.len; i++) {
		setting_add(s, "GPU", text_of(t, t->gpus.data[i].name));
		setting_add(s, "GPU driver", text_of(t, t->gpus.data[i].driver));
	}
	for (size_t i = 0; i < t->maps.len; i++)
		setting_add_file(s, text_of(t, t->maps.data[i].path),
				 text_of(t, t->maps.data[i].build_id));
}
