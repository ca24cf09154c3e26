-- Watchdog: calls another alias every so often and reports when it stops to
-- answer and when it does so again.
--
--	eventctl call watchdog status

local TARGET = assert(eventd.params.target, "[Params] needs target=")
local EVENT = eventd.params.event or "ping"
local EVERY = tonumber(eventd.params.every or 10) -- seconds
local TIMEOUT = tonumber(eventd.params.timeout or 2)
local REPORT = eventd.params.report -- alias; none: to the log alone
local REPORT_EVENT = eventd.params.report_event or "alert"

local is_well, why, checks, failures = nil, "not checked yet", 0, 0

local M = {}

local function report(level, text)
	eventd.log(level, text)
	if REPORT then
		eventd.post(REPORT, REPORT_EVENT, text)
	end
end

local function note(well, text)
	local before = is_well
	is_well, why = well, text
	if well and before == false then
		report("info", TARGET .. " answers again")
	elseif not well and before ~= false then
		report("warning", TARGET .. " does not answer: " .. text)
	end
end

function M._start()
	eventd.delay(0, "check", nil, nil, EVERY)
end

function M.check()
	local reply, word, text = eventd.call(TARGET, EVENT, "", TIMEOUT)
	checks = checks + 1
	if reply then
		note(true, "it answers")
	else
		failures = failures + 1
		note(false, word .. ": " .. text)
	end
end

function M.status()
	return ("%s: %s (%d of %d checks failed)"):format(TARGET, why,
		failures, checks)
end

return M
