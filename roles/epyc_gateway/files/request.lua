-- Copyright (c) 2026, the sovereign.epyc authors
-- SPDX-License-Identifier: GPL-3.0-or-later
--
-- Reads the JSON body of a request for HAProxy, and counts the tokens of its answer. Sets these variables:
--
--   txn.model          the model that the request names
--   txn.conversation_text  what each request of a conversation begins with: the first message of the user, or the prompt
--   txn.answers        how many answers the request asks for: those of a prompt, times the prompts
--   txn.answer_tokens  the most tokens of all answers together; not set where the request has no length that each
--                      server reads at its path
--   txn.fault          a sentence on why the request is refused; not set for one that may pass
--   txn.prompt_counted and txn.answer_counted  tokens of prompt and answer as the server says, after the answer
--
-- HAProxy's own json_query ends at 20 levels, and takes the first of two fields where servers take the last. This
-- scanner has no recursion. It does not validate a body: servers do.
--
-- usage in haproxy.cfg: lua-load FILE [fetch] FIELD ..., where "fetch" lets requests name addresses for servers to
-- fetch, and each FIELD is refused at the top level of a body. http-request lua.read_body runs it. filter
-- lua.count_tokens counts.

local may_fetch = false
local refused_fields = {}
for _, word in ipairs({...}) do
  if word == "fetch" then may_fetch = true else refused_fields[word] = true end
end

local byte, find, sub = string.byte, string.find, string.sub
local QUOTE, COLON, COMMA, OPEN_OBJECT, CLOSE_OBJECT = byte('"'), byte(":"), byte(","), byte("{"), byte("}")
local OPEN_LIST, CLOSE_LIST = byte("["), byte("]")
local ESCAPES = {b = "\b", f = "\f", n = "\n", r = "\r", t = "\t"}
-- The fields that say how long an answer may be, in the interfaces of llama-server and vLLM.
local LENGTHS = {max_tokens = true, max_completion_tokens = true, max_output_tokens = true, n_predict = true}
-- Servers differ in which of these fields they read at a path, and pass over the others: an answer is as long as it
-- likes unless the request has a field that each of them reads there.
local READ_EVERYWHERE = {max_tokens = true}
local READ_AT_PATH = {
  ["/v1/responses"] = {max_output_tokens = true},
  ["/completion"] = {max_tokens = true, n_predict = true},
  ["/completions"] = {max_tokens = true, n_predict = true},
  ["/infill"] = {max_tokens = true, n_predict = true},
}
-- The fields that say how many answers there shall be.
local COUNTS = {n = true, n_cmpl = true, best_of = true}
-- Stands for a length without a limit.
local ENDLESS = 2147483647
-- The fields whose text a server may fetch; llama-server takes an address in place of the data of a sound, too.
local ADDRESSES = {url = true, image_url = true, audio_url = true, video_url = true, file_url = true, data = true}
-- llama-server copies the fields of a body by recursion, and ends when its stack does.
local DEEPEST = 1000

local function skip_blanks(text, at)
  return find(text, "[^ \t\r\n]", at) or #text + 1
end

-- Returns the position behind a string that begins at a quote; nil where it has no end.
local function skip_string(text, at)
  at = at + 1
  while true do
    at = find(text, '["\\]', at)
    if not at then return nil end
    if byte(text, at) == QUOTE then return at + 1 end
    at = at + 2
  end
end

-- Returns the text of a string that begins at a quote and ends before `behind`.
local function decode_string(text, at, behind)
  local raw = sub(text, at + 1, behind - 2)
  if not find(raw, "\\", 1, true) then return raw end
  return (raw:gsub("\\(.)(%x?%x?%x?%x?)", function(escape, digits)
    if escape == "u" and #digits == 4 then return utf8.char(tonumber(digits, 16)) end
    return (ESCAPES[escape] or escape) .. digits
  end))
end

-- Returns whether the value at `at` is a text that a server would fetch. Programs that read addresses pass over blanks
-- and control characters before a scheme and in it.
local function is_address_to_fetch(field, text, at)
  if byte(text, at) ~= QUOTE or sub(text, at + 1, at + 5) == "data:" then return false end
  local behind = skip_string(text, at)
  local scheme = behind and decode_string(text, at, behind):gsub("[%c%s\128-\255]", ""):match("^(%a[%w+.-]*):")
  if not scheme then return false end
  scheme = scheme:lower()
  -- The data of other things than sounds may be a text with a colon.
  if field == "data" then return scheme:sub(1, 4) == "http" or scheme == "file" end
  return scheme ~= "data"
end

-- Returns the position behind the value that begins at `at`; nil where it has no end, and nil and true where it has too
-- many levels. `visit` is called with each field in it, at any depth.
local function skip_value(text, at, visit)
  local first = byte(text, at)
  if first == QUOTE then return skip_string(text, at) end
  if first ~= OPEN_OBJECT and first ~= OPEN_LIST then
    return find(text, "[,%]} \t\r\n]", at) or #text + 1
  end
  local depth = 0
  while true do
    at = find(text, '["%[%]{}]', at)
    if not at then return nil end
    local symbol = byte(text, at)
    if symbol == QUOTE then
      local behind = skip_string(text, at)
      if not behind then return nil end
      local colon = skip_blanks(text, behind)
      if byte(text, colon) == COLON then visit(decode_string(text, at, behind), skip_blanks(text, colon + 1)) end
      at = behind
    else
      depth = depth + ((symbol == OPEN_OBJECT or symbol == OPEN_LIST) and 1 or -1)
      at = at + 1
      if depth == 0 then return at end
      if depth > DEEPEST then return nil, true end
    end
  end
end

-- Calls `use` with each field of the object at `at`, and the position of its value. Returns the position behind the
-- object; nil where the text is no object, and nil and true where it has too many levels.
local function read_object(text, at, visit, use)
  if byte(text, at) ~= OPEN_OBJECT then return nil end
  at = skip_blanks(text, at + 1)
  if byte(text, at) == CLOSE_OBJECT then return at + 1 end
  while true do
    local behind = byte(text, at) == QUOTE and skip_string(text, at)
    if not behind then return nil end
    local field = decode_string(text, at, behind)
    at = skip_blanks(text, behind)
    if byte(text, at) ~= COLON then return nil end
    at = skip_blanks(text, at + 1)
    local is_too_deep
    behind, is_too_deep = skip_value(text, at, visit)
    if not behind or behind == at then return nil, is_too_deep end
    use(field, at, behind)
    at = skip_blanks(text, behind)
    if byte(text, at) == CLOSE_OBJECT then return at + 1 end
    if byte(text, at) ~= COMMA then return nil end
    at = skip_blanks(text, at + 1)
  end
end

local function pass_over() end

-- Returns the fields of an object, each with the position of its value and the position behind that value.
local function fields_of(text, at)
  local fields = {}
  read_object(text, at, pass_over, function(field, place, behind) fields[field] = {place, behind} end)
  return fields
end

-- Returns the positions of the first two elements of the list at `at`.
local function first_elements(text, at)
  if byte(text, at) ~= OPEN_LIST then return nil, nil end
  local first = skip_blanks(text, at + 1)
  local behind = skip_value(text, first, pass_over)
  local comma = behind and skip_blanks(text, behind)
  return first, comma and byte(text, comma) == COMMA and skip_blanks(text, comma + 1) or nil
end

-- Returns how many prompts the value at `at` has: a list with a number in it is one prompt, as tokens.
local function count_prompts(text, at)
  if byte(text, at) ~= OPEN_LIST then return 1 end
  local count = 0
  at = skip_blanks(text, at + 1)
  while byte(text, at) ~= CLOSE_LIST do
    local first = byte(text, at)
    local behind = (first == QUOTE or first == OPEN_LIST or first == OPEN_OBJECT) and skip_value(text, at, pass_over)
    if not behind then return 1 end
    count = count + 1
    at = skip_blanks(text, behind)
    if byte(text, at) == COMMA then at = skip_blanks(text, at + 1) end
  end
  return math.max(count, 1)
end

-- Returns the text of a string, as it is written; nil for any other value and for an empty text.
local function written_text(text, value)
  if not value or byte(text, value[1]) ~= QUOTE or value[2] - value[1] <= 2 then return nil end
  return sub(text, value[1] + 1, value[2] - 2)
end

-- Returns the text of a message: its content, or the text of its first part.
local function message_text(text, message)
  local content = message.content
  if not content then return nil end
  local part = first_elements(text, content[1])
  return written_text(text, part and fields_of(text, part).text or content)
end

-- Returns what the user said first, in the list of messages at `at`.
local function first_user_text(text, at)
  local first, second = first_elements(text, at)
  if not first then return nil end
  local message = fields_of(text, first)
  if written_text(text, message.role) ~= "user" and second then message = fields_of(text, second) end
  return message_text(text, message)
end

-- Returns a number that says how many; ENDLESS for what is no whole number above 0, nil for null.
local function read_count(text, at, behind)
  local written = sub(text, at, behind - 1)
  if written == "null" then return nil end
  local number = tonumber(written)
  if not number or number < 1 or number > ENDLESS then return ENDLESS end
  return math.ceil(number)
end

-- Returns a field's name for a sentence; names that could change the answer's form are not repeated.
local function shown(field)
  return field:match("^[%w_.-]+$") and #field <= 64 and "The field " .. field or "A field"
end

core.register_action("read_body", {"http-req"}, function(txn)
  local text = txn.sf:req_body() or ""
  local fault, model, conversation, length, has_readable_length
  local count, prompts = 1, 1
  local path = txn.sf:path()
  local readable = READ_AT_PATH[path] or READ_EVERYWHERE
  local seen = {}

  local function visit(field, at)
    if ADDRESSES[field] and not may_fetch and is_address_to_fetch(field, text, at) then
      fault = fault or shown(field) .. " is an address that the server would fetch. Send the content itself, as data:."
    end
  end

  local function use(field, at, behind)
    if seen[field] then
      fault = fault or shown(field) .. " is in the body twice."
    elseif refused_fields[field] then
      fault = fault or shown(field) .. " is not for clients of the gateway."
    end
    seen[field] = true
    visit(field, at)
    if field == "model" and byte(text, at) == QUOTE then
      model = decode_string(text, at, behind)
    elseif field == "messages" or field == "input" then
      conversation = first_user_text(text, at) or written_text(text, {at, behind}) or conversation
    elseif field == "prompt" then
      conversation = conversation or written_text(text, {at, behind})
      prompts = count_prompts(text, at)
    elseif LENGTHS[field] then
      local number = read_count(text, at, behind)
      length = number and math.max(number, length or 0) or length
      has_readable_length = has_readable_length or (number ~= nil and readable[field])
    elseif COUNTS[field] then
      count = math.max(read_count(text, at, behind) or 1, count)
    end
  end

  local behind, is_too_deep = read_object(text, skip_blanks(text, 1), visit, use)
  if is_too_deep then
    fault = fault or "The body has more than " .. DEEPEST .. " levels."
  elseif not behind or skip_blanks(text, behind) <= #text then
    fault = fault or "The body is no JSON object."
  elseif not model then
    fault = fault or "The body names no model."
  elseif find(model, "%c") then
    fault = fault or "The name of the model has a control character."
  end
  if fault then txn:set_var("txn.fault", fault) end
  if model and not fault then txn:set_var("txn.model", model) end
  if conversation then txn:set_var("txn.conversation_text", conversation) end
  local answers = math.min(ENDLESS, count * prompts)
  txn:set_var("txn.answers", answers)
  if has_readable_length then txn:set_var("txn.answer_tokens", math.min(ENDLESS, length * answers)) end
end, 0)

-- How much of the beginning and of the end of an answer is kept until the answer is over.
local KEPT = 4096
local Counter = {id = "tokens of answers", flags = filter.FLT_CFG_FL_HTX}
Counter.__index = Counter

function Counter:new()
  return setmetatable({first = false, last = ""}, Counter)
end

function Counter:start_analyze(_, channel)
  if channel:is_resp() then filter.register_data_filter(self, channel) end
end

function Counter:http_payload(_, message)
  local data = message:body() or ""
  self.first = self.first or sub(data, 1, KEPT)
  self.last = sub(self.last .. sub(data, -KEPT), -KEPT)
end

-- Returns the last number that the field has in the end of the answer, or else in its beginning. No text that a model
-- writes is taken for it, because quotes are escaped in texts.
function Counter:number(field)
  local pattern = '"' .. field .. '"%s*:%s*(%d+)'
  for _, text in ipairs({self.last, self.first or ""}) do
    local number
    for digits in text:gmatch(pattern) do number = math.min(ENDLESS, tonumber(digits)) end
    if number then return number end
  end
  return nil
end

-- Returns the number of the first field and that of the second one, if it has one; nil where the first has none.
function Counter:sum(field, more)
  local number = self:number(field)
  return number and number + (self:number(more) or 0)
end

-- Servers say usage, and llama-server timings in streams whose clients asked for no usage. What a server had in its
-- cache is in prompt_tokens, and beside input_tokens and prompt_n.
function Counter:http_end(txn, message)
  if not message.channel:is_resp() then return end
  local prompt, answer = self:number("prompt_tokens"), self:number("completion_tokens")
  if not prompt then
    prompt, answer = self:sum("input_tokens", "cache_read_input_tokens"), self:number("output_tokens")
  end
  if not prompt then
    prompt, answer = self:sum("prompt_n", "cache_n"), self:number("predicted_n")
  end
  if prompt then txn:set_var("txn.prompt_counted", prompt) end
  if answer then txn:set_var("txn.answer_counted", answer) end
end

core.register_filter("count_tokens", Counter, function(counter) return counter end)
