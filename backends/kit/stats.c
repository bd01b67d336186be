/* SPDX-License-Identifier: BSD-3-Clause */
#include "kit/stats.h"

void kit_stats_report(const struct kit_stats *stats, TRITONBACKEND_ModelInstance *instance,
                      TRITONBACKEND_Request *request, bool is_success) {
        struct kit_stats    at = kit_stats_filled(stats);
        TRITONSERVER_Error *err =
                TRITONBACKEND_ModelInstanceReportStatistics(instance, request, is_success,
                                                            at.exec_start, at.compute_start,
                                                            at.compute_end, at.exec_end);

        kit_error_log(err, "failed to report the statistics of a request");
}

void kit_stats_report_batch(const struct kit_stats *stats, TRITONBACKEND_ModelInstance *instance,
                            int64_t rows) {
        struct kit_stats    at = kit_stats_filled(stats);
        TRITONSERVER_Error *err =
                TRITONBACKEND_ModelInstanceReportBatchStatistics(instance, (uint64_t)rows,
                                                                 at.exec_start, at.compute_start,
                                                                 at.compute_end, at.exec_end);

        kit_error_log(err, "failed to report the statistics of a batch");
}
