-- lua-pingpong-alias: event k is handled by pong if k is even, else by ping.
-- Each event carries its number.
local post, tointeger = eventd.post, math.tointeger
local peer = eventd.params.peer
local n = math.tointeger(eventd.params.n)
local expected = 0
local call, start

local M = {}

function M.pingpong()
	call = eventd.defer()
	expected = 1
	start = eventd.monotonic()
	assert(post(peer, "event", 0))
end

function M.event(data)
	local number = tointeger(data)
	if number ~= expected then
		error("event " .. data .. " came instead of " .. expected)
	end
	expected = number + 2
	if number + 1 == n then
		local ns = (eventd.monotonic() - start) * 1e9
		eventd.reply(call, ("ns_per_event %.6g ns\n"):format(ns / n))
	elseif not post(peer, "event", number + 1) then
		error("event " .. number + 1 .. " was not posted")
	end
end

return M
