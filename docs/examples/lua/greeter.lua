-- Greeter: the tour. Calls are answered by what a handler returns; its state
-- lives as long as the session.
--
--	eventctl call greeter greet World
--	eventctl call greeter count
--	eventctl post greeter remind "3 drink some tea"

local greeting = eventd.params.greeting or "Hello"
local count = 0

local M = {}

function M._start()
	eventd.log("info", eventd.alias() .. " is ready")
end

function M.greet(name)
	if name == "" then
		eventd.reply_error("whom? give a name as the payload")
		return
	end
	count = count + 1
	return greeting .. ", " .. name .. "!"
end

function M.count()
	return count
end

-- Payload: seconds and a text, which comes back to this session as an event.
function M.remind(data)
	local seconds, text = data:match("^(%d+%.?%d*) +(.+)$")
	if not seconds then
		eventd.reply_error("usage: SECONDS TEXT")
		return
	end
	return eventd.delay(tonumber(seconds), "say", text)
end

function M.say(text, ev)
	eventd.log("info", ("%s (%.3f s late)"):format(text, ev.late))
end

return M
