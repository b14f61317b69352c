/* otlp_answer.c - by protobuf-c's parser, which bounds and checks. */
#include "serve/otlp_answer.h"

#include <stdio.h>

#include "otlp_metrics_service.pb-c.h"

typedef Opentelemetry__Proto__Collector__Metrics__V1__ExportMetricsServiceResponse answer_t;

uint64_t otlp_answer_rejected(const uint8_t *answer, size_t n, char *ret_why, size_t size)
{
	uint64_t ret = 0;
	ret_why[0] = 0;
	answer_t *a =
		n ? opentelemetry__proto__collector__metrics__v1__export_metrics_service_response__unpack(
			    NULL, n, answer)
		  : NULL;
	if (a && a->partial_success) {
		int64_t rejected = a->partial_success->rejected_data_points;
		ret = rejected > 0 ? (uint64_t)rejected : 0;
		snprintf(ret_why, size, "%s", a->partial_success->error_message);
	}
	if (a)
		opentelemetry__proto__collector__metrics__v1__export_metrics_service_response__free_unpacked(
			a, NULL);
	return ret;
}
