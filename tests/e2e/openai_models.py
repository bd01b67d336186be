# SPDX-License-Identifier: BSD-3-Clause
"""Models for the tests of the OpenAI API, one for each format of docs/language_models.md.

All models in Python are decoupled and obey the prompt: parts that are separated by "|" become one response
each. A prompt of the form "@<command>" asks for something special:

    @show    the inputs of the request as JSON, in one response
    @hex     the parts that follow are hexadecimal bytes
    @fail    the model fails at once; "@fail|a|b" fails after "a" and "b"
    @wait    no response until the request is cancelled; the file `log` gets a line "waits <time>" and
             then a line "cancelled <time>"
    @none    no finish reason is reported
    @lost    fails at once with the code NOT_FOUND
    @wait_after    the same after the other parts
    @stubborn      goes on for 1.5 s, whether it is cancelled or not
    @late    sleeps for 0.5 s before anything else
    @held    goes on after the other parts until the file `log`.go exists, whether it is cancelled or not

Names of tests begin with the number of what they check, of the list that the API was built by: 1 OpenAI's client for
Node, unmodified, and that a client that leaves cancels; 2 the form of every error; 3 the vLLM backend; 4 TensorRT-LLM's
configurations; 5 characters that are split over tokens; 6 stop words that are split over tokens; 7 keys with patterns of
models; 8 a reader that stops; 9 a thousand clients that hang up at any step; 10 templates; 11 a library that is missing
or ends; 12 the same text alone and beside others; 13 fuzzing (tests/fuzz: openai_body, openai_answer, base64). 10 to 12
are those of models with an engine of their own.

The vllm-like model takes "<n words>" as the number of prompt tokens, and one token for each response.
"""
import http.client
import json
import urllib.error
import urllib.request

BACKENDS = ("python", "identity")

PROGRAM = '''
import json, os, threading, time
import numpy as np
import triton_python_backend_utils as pb_utils


def text(value):
    return value.decode() if isinstance(value, bytes) else str(value)


class Inputs(dict):
    def __init__(self, request):
        super().__init__()
        self.shapes = {}
        for tensor in request.inputs():
            array = tensor.as_numpy()
            self[tensor.name()] = [v.decode() if isinstance(v, bytes) else v.item()
                                   for v in array.reshape(-1)]
            self.shapes[tensor.name()] = [str(array.dtype), list(array.shape)]


class TritonPythonModel:
    def initialize(self, args):
        config = json.loads(args["model_config"])
        self.parameters = {k: v["string_value"] for k, v in config["parameters"].items()}
        self.batched = config["max_batch_size"] > 0

    def execute(self, requests):
        for request in requests:
            sender = request.get_response_sender()
            threading.Thread(target=self.run, args=(Inputs(request), sender)).start()

    def tensors(self, values):
        made = []
        for name, value in values.items():
            if isinstance(value, list) and value and isinstance(value[0], (bytes, str)):
                array = np.array(value, dtype=np.object_)
            else:
                array = np.array(value, dtype=np.uint32)
            made.append(pb_utils.Tensor(name, array.reshape(1, -1) if self.batched else array))
        return pb_utils.InferenceResponse(made)

    def log(self, word):
        with open(self.parameters["log"], "a") as file:
            print(word, f"{time.time():.6f}", file=file)

    def wait(self, sender):
        self.log("waits")
        while not sender.is_cancelled():
            time.sleep(0.0005)
        self.log("cancelled")

    def held(self):
        self.log("held")
        while not os.path.exists(self.parameters["log"] + ".go"):
            time.sleep(0.002)
        self.log("let go")

    def run(self, inputs, sender):
        final = pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL
        try:
            if any("@late" in str(value) for value in inputs.values()):
                time.sleep(0.5)
            self.answer(inputs, sender)
            sender.send(flags=final)
        except Exception as error:
            sender.send(pb_utils.InferenceResponse(error=pb_utils.TritonError(str(error))), flags=final)

    def pieces(self, prompt):
        if prompt.startswith("@hex|"):
            return [bytes.fromhex(part) for part in prompt.split("|")[1:]]
        return [part.encode() for part in prompt.split("|") if not part.startswith("@")]
'''

TEXT = PROGRAM + '''
    def answer(self, inputs, sender):
        prompt = inputs["text_input"][0]
        if prompt == "@lost":
            sender.send(pb_utils.InferenceResponse(error=pb_utils.TritonError(
                "a table is lost", pb_utils.TritonError.NOT_FOUND)))
            return
        if prompt == "@wait":
            self.wait(sender)
            return
        if prompt == "@show":
            shown = json.dumps({"values": inputs, "shapes": inputs.shapes})
            sender.send(self.make(shown.encode(), inputs, "stop", 0))
            return
        if prompt == "@stubborn":
            time.sleep(1.5)
            return
        parts = self.pieces(prompt)
        for i, part in enumerate(parts):
            last = i == len(parts) - 1 and not any(
                word in prompt for word in ("@fail", "@none", "@wait_after", "@held"))
            sender.send(self.make(part, inputs, "stop" if last else "None", i))
        if "@wait_after" in prompt:
            self.wait(sender)
        if "@held" in prompt:
            self.held()
        if "@fail" in prompt:
            raise RuntimeError("the model has failed")
'''

VLLM = TEXT + '''
    def make(self, part, inputs, reason, number):
        sampling = json.loads(inputs["sampling_parameters"][0])
        n = sampling.get("n", 1)
        out = {"text_output": [part + (str(i).encode() if i else b"") for i in range(n)]}
        if inputs.get("return_finish_reason") == [True]:
            out["finish_reason"] = [reason] * n
        if inputs.get("return_num_input_tokens") == [True]:
            out["num_input_tokens"] = len(inputs["text_input"][0].split())
        if inputs.get("return_num_output_tokens") == [True]:
            out["num_output_tokens"] = [n]
        if inputs.get("return_logprobs") == [True]:
            token = part.decode("utf-8", "replace")
            out["logprobs"] = [json.dumps([{"7": {"logprob": -0.5, "rank": 2, "decoded_token": token},
                                            "9": {"logprob": -0.25, "rank": 1,
                                                  "decoded_token": "other"}}])] * n
        return self.tensors(out)
'''

VLLM_EMBEDDING = VLLM.replace('''    def answer(self, inputs, sender):
''', '''    def answer(self, inputs, sender):
        if "embedding_request" in inputs:
            asked = json.loads(inputs["embedding_request"][0])
            n = asked.get("pooling_params", {}).get("dimensions", [3])[0]
            sender.send(self.tensors({"text_output": [json.dumps([float(len(asked["input"]))] * n)],
                                      "num_input_tokens": len(asked["input"].split())}))
            return
''')

TRTLLM = TEXT + '''
    def make(self, part, inputs, reason, number):
        n = inputs.get("num_return_sequences", [1])[0]
        out = {"text_output": [part] * n}
        if inputs.get("return_num_output_tokens") == [True]:
            out["num_output_tokens"] = [1] * n
        return self.tensors(out)
'''

LLMAPI = TEXT + '''
    def make(self, part, inputs, reason, number):
        out = {"text_output": [part]}
        if inputs.get("return_finish_reason") == [True]:
            out["finish_reason"] = [reason]
        return self.tensors(out)
'''

# Answers the last message or the prompt; "@tools" answers with a call of a tool in pieces, "@silent" with nothing, "@text"
# with an error that is a text.
OPENAI = PROGRAM + '''
    def send(self, sender, value):
        sender.send(self.tensors({"openai_response": [json.dumps(value)]}))

    def answer(self, inputs, sender):
        body = json.loads(inputs["openai_request"][0])
        if body["endpoint"] == "embedding":
            texts = [body["input"]] if isinstance(body["input"], str) else body["input"]
            if texts[0].startswith("@@"):
                self.send(sender, {"data": json.loads(texts[0][2:])})
                return
            self.send(sender, {"data": [{"object": "embedding", "index": i, "embedding": [
                                            0.5, float(t[1:]) if t[:1] == "@" else len(t)]}
                                        for i, t in enumerate(texts)],
                               "usage": {"prompt_tokens": 3, "total_tokens": 3}})
            return
        chat = body["endpoint"] == "chat"
        prompt = body["messages"][-1]["content"] if chat else body["prompt"]
        if prompt == "@wait":
            self.wait(sender)
            return
        if prompt.startswith("@long"):
            self.send(sender, {"error": {"message": "the prompt has 9 tokens, the context has 8",
                                         "type": "invalid_request_error", "param": "messages",
                                         "code": "context_length_exceeded"}})
            return
        if prompt.startswith("@silent"):
            return
        if prompt == "@text":
            self.send(sender, {"error": "no object"})
            return
        if prompt == "@bad":
            sender.send(self.tensors({"openai_response": ["no JSON"]}))
            return
        parts = [json.dumps(body)] if prompt == "@show" else [
            p.decode() for p in self.pieces(prompt)]
        if prompt == "@tools":
            self.tools(sender, body)
        elif not body.get("stream"):
            text = "".join(parts)
            choice = {"index": 0, "finish_reason": "stop"}
            choice.update({"message": {"role": "assistant", "content": text}} if chat
                          else {"text": text})
            self.send(sender, {"choices": [choice], "usage": self.usage(parts)})
        else:
            self.stream(sender, parts, chat, prompt)

    def usage(self, parts):
        return {"prompt_tokens": 5, "completion_tokens": len(parts), "total_tokens": 5 + len(parts)}

    def choice(self, chat, text, reason=None, **more):
        made = {"index": 0, "finish_reason": reason}
        made.update({"delta": {**more, **({"content": text} if text is not None else {})}}
                    if chat else {"text": text or ""})
        return {"id": "not this", "model": "nor this", "choices": [made]}

    def stream(self, sender, parts, chat, prompt):
        if chat:
            self.send(sender, self.choice(chat, "", role="assistant"))
        for part in parts:
            self.send(sender, self.choice(chat, part))
        if "@fail" in prompt:
            raise RuntimeError("the model has failed")
        self.send(sender, self.choice(chat, None, "stop"))
        self.send(sender, {"choices": [], "usage": self.usage(parts)})

    def tools(self, sender, body):
        name = body["tools"][0]["function"]["name"]
        first = {"index": 0, "id": "call_1", "type": "function",
                 "function": {"name": name, "arguments": ""}}
        if not body.get("stream"):
            first["function"]["arguments"] = '{"city":"Bonn"}'
            del first["index"]
            self.send(sender, {"choices": [{"index": 0, "finish_reason": "tool_calls", "message": {
                "role": "assistant", "content": None, "tool_calls": [first]}}]})
            return
        self.send(sender, self.choice(True, None, role="assistant", tool_calls=[first]))
        for piece in ('{"city":', '"Bonn"}'):
            self.send(sender, self.choice(True, None, tool_calls=[
                {"index": 0, "function": {"arguments": piece}}]))
        self.send(sender, self.choice(True, None, "tool_calls"))
'''

# One row for each text: its length, or the number that follows "@", and 1, 2, 2. It counts its executions in the
# last output.
EMBED = '''
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        answers = []
        for request in requests:
            texts = pb_utils.get_input_tensor_by_name(request, "text").as_numpy().reshape(-1)
            wanted = pb_utils.get_input_tensor_by_name(request, "dimensions")
            n = 4 if wanted is None else int(wanted.as_numpy().reshape(-1)[0])
            rows = np.array([([self.first(t), 1, 2, 2] * n)[:n] for t in texts], dtype=np.float32)
            counts = np.array([[len(t.split())] for t in texts], dtype=np.int32)
            if self.batched:
                out = [pb_utils.Tensor("vector", rows), pb_utils.Tensor("num_input_tokens", counts)]
            else:
                out = [pb_utils.Tensor("vector", rows[0]),
                       pb_utils.Tensor("num_input_tokens", counts[0])]
            answers.append(pb_utils.InferenceResponse(out))
        return answers

    def first(self, text):
        return float(text[1:]) if text[:1] == b"@" else len(text)

    def initialize(self, args):
        import json
        self.batched = json.loads(args["model_config"])["max_batch_size"] > 0
'''

# Renders messages as "<role>: <content>" joined by "/"; the last content alone when it is a command, apart from
# @refuse, @huge for a text of more than 16 MiB, and @held, which waits as the other models do.
TEMPLATE = '''
import json, os, time
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        self.log = json.loads(args["model_config"])["parameters"]["log"]["string_value"]

    def execute(self, requests):
        return [self.render(r) for r in requests]

    def render(self, request):
        body = json.loads(pb_utils.get_input_tensor_by_name(
            request, "openai_request").as_numpy().reshape(-1)[0])
        last = body["messages"][-1]["content"]
        if last == "@refuse":
            return pb_utils.InferenceResponse(error=pb_utils.TritonError(
                "these messages have no form", pb_utils.TritonError.INVALID_ARG))
        while last == "@held" and not os.path.exists(self.log + ".go"):
            time.sleep(0.002)
        if last == "@huge":
            last = "|" * ((16 << 20) + 1)
        text = last if last[:1] == "@" or "|" in last else "/".join(
            f"{m['role']}: {m['content']}" for m in body["messages"])
        return pb_utils.InferenceResponse([pb_utils.Tensor(
            "text", np.array([text.encode()], dtype=np.object_))])
'''


def tensors(kind, rows):
    return "".join(f'{kind} {{ name: "{name}" data_type: TYPE_{type_of} dims: {dims}'
                   f'{" optional: true" if optional else ""} }}\n'
                   for name, type_of, dims, optional in rows)


def io(inputs, outputs):
    return tensors("input", inputs) + tensors("output", [(*o, False) for o in outputs])


def parameters(**values):
    return "".join(f'parameters {{ key: "{k}" value {{ string_value: "{v}" }} }}\n'
                   for k, v in values.items())


DECOUPLED = "model_transaction_policy { decoupled: true }\n"
FLAGS = ("exclude_input_in_output", "return_finish_reason", "return_num_input_tokens",
         "return_num_output_tokens")

VLLM_IO = io([("text_input", "STRING", [1], True), ("stream", "BOOL", [1], True),
              ("sampling_parameters", "STRING", [1], True), ("return_logprobs", "BOOL", [1], True),
              *((name, "BOOL", [1], True) for name in FLAGS)],
             [("text_output", "STRING", [-1]), ("finish_reason", "STRING", [-1]),
              ("num_input_tokens", "UINT32", [1]), ("num_output_tokens", "UINT32", [-1]),
              ("logprobs", "STRING", [-1])])
TRTLLM_IO = io([("text_input", "STRING", [1], False), ("max_tokens", "INT32", [1], True),
                ("temperature", "FP32", [1], True), ("top_p", "FP32", [1], True),
                ("frequency_penalty", "FP32", [1], True), ("presence_penalty", "FP32", [1], True),
                ("seed", "UINT64", [1], True), ("stop_words", "STRING", [-1], True),
                ("stream", "BOOL", [1], True), ("num_return_sequences", "INT32", [1], True),
                ("guided_decoding_guide_type", "STRING", [1], True),
                ("guided_decoding_guide", "STRING", [1], True),
                *((name, "BOOL", [1], True) for name in (FLAGS[0], *FLAGS[2:]))],
               [("text_output", "STRING", [-1]), ("num_output_tokens", "UINT32", [-1])])
LLMAPI_IO = io([("text_input", "STRING", [1], False), ("streaming", "BOOL", [1], True),
                ("sampling_param_max_tokens", "INT32", [1], True),
                ("sampling_param_temperature", "FP32", [1], True),
                ("sampling_param_top_p", "FP32", [1], True),
                ("sampling_param_seed", "UINT64", [1], True),
                ("sampling_param_stop", "STRING", [-1], True),
                ("sampling_param_exclude_input_from_output", "BOOL", [1], True),
                ("return_finish_reason", "BOOL", [1], True)],
               [("text_output", "STRING", [-1]), ("finish_reason", "STRING", [-1])])
OPENAI_IO = io([("openai_request", "STRING", [1], False)], [("openai_response", "STRING", [1])])
EMBED_IO = io([("text", "STRING", [1], False)],
              [("vector", "FP32", [-1]), ("num_input_tokens", "INT32", [1])])


def model(program, tensors_of, more="", decoupled=True):
    return {"config.pbtxt": f'backend: "python"\n{tensors_of}{DECOUPLED if decoupled else ""}{more}',
            "1/model.py": program}


def models(log):
    """`log`: the file that the models write to when a request was cancelled."""
    said = parameters(log=log)
    return {
        "vllm": model(VLLM, VLLM_IO, said + parameters(openai_template="render")),
        "plain": model(VLLM, VLLM_IO, said),
        "vllm_embedding": model(VLLM_EMBEDDING, VLLM_IO + io(
            [("embedding_request", "STRING", [1], True)], []), said),
        "trtllm": model(TRTLLM, TRTLLM_IO, said + parameters(openai_template="render")
                        + "max_batch_size: 4\n"),
        "seeds_of_32_bits": model(LLMAPI, LLMAPI_IO.replace('name: "sampling_param_seed" data_type: TYPE_UINT64',
                                                            'name: "sampling_param_seed" data_type: TYPE_INT32'),
                                  said + parameters(openai_max_tokens="2")),
        "llmapi": model(LLMAPI, LLMAPI_IO, said + parameters(openai_max_tokens="2",
                                                             openai_template="render")),
        "speaks": model(OPENAI, OPENAI_IO, said),
        "embed": model(EMBED, EMBED_IO, parameters(openai="embeddings", openai_dimensions="truncate")
                       + "max_batch_size: 2\n", decoupled=False),
        "embed_one": model(EMBED, EMBED_IO + io([("dimensions", "INT32", [1], True)], []),
                           parameters(openai="embeddings"), decoupled=False),
        "render": model(TEMPLATE, io([("openai_request", "STRING", [1], False)],
                                     [("text", "STRING", [1])]), said + parameters(openai="off"),
                        decoupled=False),
        "hidden": model(OPENAI, OPENAI_IO, said + parameters(openai="off")),
        "other": ('backend: "identity"\n' + io([("INPUT0", "FP32", [-1], False)],
                                               [("OUTPUT0", "FP32", [-1])])),
    }


# ---- a client of our own, with nothing but Python's library -------------------------------------


class Answer:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def error(self):
        return self.json["error"]


def call(server, path, body=None, method=None, headers=None):
    """`body`: an object that becomes JSON, or bytes."""
    if body is not None and not isinstance(body, bytes):
        body = json.dumps(body).encode()
    request = urllib.request.Request(f"{server.url}{path}", data=body, method=method,
                                     headers={"Content-Type": "application/json", **(headers or {})})
    try:
        with urllib.request.urlopen(request, timeout=30) as reply:
            return Answer(reply.status, reply.headers, reply.read())
    except urllib.error.HTTPError as error:
        return Answer(error.code, error.headers, error.read())


def complete(server, model_name, prompt, **more):
    return call(server, "/v1/completions", {"model": model_name, "prompt": prompt, **more})


def chat(server, model_name, content, **more):
    return call(server, "/v1/chat/completions", {
        "model": model_name, "messages": [{"role": "user", "content": content}], **more})


def events(body):
    """The data of each event; the framing is checked on the way. Heartbeats are left out."""
    text = body.decode()
    assert text.endswith("\n\n"), text
    pieces = [p for p in text.split("\n\n")[:-1] if p != ": "]
    assert all(p.startswith("data: ") and "\n" not in p for p in pieces), text
    return [p[6:] for p in pieces]


def chunks(body):
    """The objects of a stream, which must end with [DONE]."""
    found = events(body)
    assert found[-1] == "[DONE]"
    return [json.loads(one) for one in found[:-1]]


def begin(server, path, body):
    """A request whose answer is not read: the connection."""
    connection = http.client.HTTPConnection(server.url.split("://")[1], timeout=30)
    connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
    return connection
