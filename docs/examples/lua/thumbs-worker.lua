-- Thumbs' worker: does one job at a time for the queue that spawned it. It
-- sleeps where a real one would have a program make the picture.

local SECONDS = tonumber(eventd.params.seconds or 0.5)

local M = {}

function M.make(data)
	local id, name = data:match("^(%d+) (.*)$")
	eventd.sleep(SECONDS)
	if name:find("%.crash$") then
		error("cannot bear " .. name)
	end
	local state, result = "done", name:gsub("%.%w+$", "") .. ".thumb.png"
	if not name:find("%.jpe?g$") and not name:find("%.png$") then
		state, result = "failed", name .. " is no picture"
	end
	eventd.post(eventd.params.queue, "ended",
		id .. " " .. state .. " " .. result)
end

return M
