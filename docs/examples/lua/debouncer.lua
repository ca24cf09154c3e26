-- Debouncer: many events, one action after quiet. Whatever event it gets, it
-- waits until none has come for a while and then posts one to its target,
-- with how many there were and the payload of the last.
--
--	eventctl post debouncer changed /etc/hosts
--
-- Under a steady stream it would never be quiet, so it does not wait for
-- longer than `most`.

local TARGET = assert(eventd.params.target, "[Params] needs target=")
local EVENT = eventd.params.event or "settled"
local QUIET = tonumber(eventd.params.quiet or 1) -- seconds
local MOST = tonumber(eventd.params.most or 10 * QUIET)

local count, last = 0, ""
local since, timer

local M = {}

local function fire()
	local ok, word, text = eventd.post(TARGET, EVENT, count .. " " .. last)
	if not ok then
		eventd.log("warning", ("%s gets no %s: %s"):format(
			TARGET, EVENT, text))
	end
	count, timer = 0, nil
end

-- The name of the timer's event; a timer that was replaced says nothing.
M["quiet-is-over"] = function(data)
	if timer and data == tostring(count) then
		fire()
	end
end

function M._default(data)
	local now = eventd.monotonic()
	count, last = count + 1, data
	if timer then
		eventd.cancel(timer)
	else
		since = now
	end
	local wait = math.max(0, math.min(QUIET, since + MOST - now))
	timer = eventd.delay(wait, "quiet-is-over", count)
end

return M
