/* parca.c - by jansson; bytes are base64 in protobuf's JSON. */
#include "serve/parca.h"

#include <jansson.h>
#include <openssl/evp.h>
#include <string.h>

#include "serve/clean_json.h"
#include "serve/process_labels.h"

#define NAME "process_cpu" /* as Parca calls such profiles that it takes itself */

static void put_label(json_t *list, const char *name, const char *value)
{
	if (value && value[0])
		json_array_append_new(
			list, json_pack("{s:s,s:o}", "name", name, "value", clean_json(value)));
}

static json_t *labels_json(const struct live_process *of, const char *host)
{
	struct process_labels labels;
	json_t *ret = json_array();
	put_label(ret, "__name__", NAME);
	put_label(ret, "node", host);
	process_labels_of(&labels, of);
	for (size_t i = 0; i < labels.len; i++)
		put_label(ret, labels.list[i].name, labels.list[i].value);
	return ret;
}

static json_t *base64_json(const struct buf *bytes)
{
	struct buf text = {0};
	buf_reserve(&text, bytes->len / 3 * 4 + 8);
	int n = EVP_EncodeBlock(text.data, bytes->data, (int)bytes->len);
	json_t *ret = json_stringn((const char *)text.data, (size_t)n);
	buf_free(&text);
	return ret;
}

static int add_to_body(const char *text, size_t size, void *body)
{
	buf_add(body, text, size);
	return 0;
}

void parca_write(struct buf *ret, const struct live_process *of, const char *host,
		 const struct buf *pprof)
{
	json_t *series = json_pack("{s:{s:o},s:[{s:o}]}", "labels", "labels", labels_json(of, host),
				   "samples", "rawProfile", base64_json(pprof));
	json_t *question = json_pack("{s:[o],s:b}", "series", series, "normalized", 1);
	json_dump_callback(question, add_to_body, ret, JSON_COMPACT);
	json_decref(question);
}
