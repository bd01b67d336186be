/* SPDX-License-Identifier: BSD-3-Clause */
/* Functions that bls_call.c refers to and the tests of its replies do not reach. */
#include <stdlib.h>

#define NOT_REACHED(name)                                                                          \
        void name(void);                                                                           \
        void name(void) {                                                                          \
                abort();                                                                           \
        }

NOT_REACHED(NESO_CancelWatchNew)
NOT_REACHED(NESO_InferenceRequestModelSteps)
NOT_REACHED(NESO_InferenceRequestSetRunsAlone)
NOT_REACHED(TRITONSERVER_BufferAttributesDelete)
NOT_REACHED(TRITONSERVER_BufferAttributesNew)
NOT_REACHED(TRITONSERVER_BufferAttributesSetByteSize)
NOT_REACHED(TRITONSERVER_BufferAttributesSetCudaIpcHandle)
NOT_REACHED(TRITONSERVER_BufferAttributesSetMemoryType)
NOT_REACHED(TRITONSERVER_BufferAttributesSetMemoryTypeId)
NOT_REACHED(TRITONSERVER_InferenceRequestAddInput)
NOT_REACHED(TRITONSERVER_InferenceRequestAddRequestedOutput)
NOT_REACHED(TRITONSERVER_InferenceRequestAppendInputData)
NOT_REACHED(TRITONSERVER_InferenceRequestAppendInputDataWithBufferAttributes)
NOT_REACHED(TRITONSERVER_InferenceRequestCancel)
NOT_REACHED(TRITONSERVER_InferenceRequestDelete)
NOT_REACHED(TRITONSERVER_InferenceRequestNew)
NOT_REACHED(TRITONSERVER_InferenceRequestSetBoolParameter)
NOT_REACHED(TRITONSERVER_InferenceRequestSetCorrelationId)
NOT_REACHED(TRITONSERVER_InferenceRequestSetCorrelationIdString)
NOT_REACHED(TRITONSERVER_InferenceRequestSetDoubleParameter)
NOT_REACHED(TRITONSERVER_InferenceRequestSetFlags)
NOT_REACHED(TRITONSERVER_InferenceRequestSetId)
NOT_REACHED(TRITONSERVER_InferenceRequestSetIntParameter)
NOT_REACHED(TRITONSERVER_InferenceRequestSetReleaseCallback)
NOT_REACHED(TRITONSERVER_InferenceRequestSetResponseCallback)
NOT_REACHED(TRITONSERVER_InferenceRequestSetStringParameter)
NOT_REACHED(TRITONSERVER_InferenceRequestSetTimeoutMicroseconds)
NOT_REACHED(TRITONSERVER_InferenceTraceSpawnChildTrace)
NOT_REACHED(TRITONSERVER_ResponseAllocatorNew)
NOT_REACHED(TRITONSERVER_ServerInferAsync)
NOT_REACHED(TRITONSERVER_ServerModelTransactionProperties)
NOT_REACHED(answer_copy)
NOT_REACHED(answer_copy_text)
NOT_REACHED(device_tensor_close)
NOT_REACHED(device_tensor_open)
NOT_REACHED(entry_find)
NOT_REACHED(entry_find_locked)
NOT_REACHED(reply_push)
NOT_REACHED(reply_push_early)
NOT_REACHED(reply_text)
NOT_REACHED(session_return)
