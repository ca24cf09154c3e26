-- Thumbs: a queue of jobs and the workers that do them, as for making preview
-- pictures. Each worker is a session of its own, spawned here; one that fails
-- is started again by its supervisor, and its job is given out anew.
--
--	eventctl call thumbs add /srv/photos/cat.jpg
--	eventctl call thumbs status
--	eventctl call thumbs status 1
--
-- Jobs are kept in memory: they are gone when this session ends.

local N_WORKERS = math.tointeger(eventd.params.workers or 2)
local TIMEOUT = tonumber(eventd.params.timeout or 60) -- seconds for a job
local ATTEMPTS = math.tointeger(eventd.params.attempts or 3)
local KEEP = math.tointeger(eventd.params.keep or 1000) -- ended jobs

local jobs = {} -- by id: name, state, attempts, result
local waiting, idle, ended = {}, {}, {}
local last_id = 0

local M = {}

local function give_out()
	while #waiting > 0 and #idle > 0 do
		local id, worker = table.remove(waiting, 1), table.remove(idle)
		local job = jobs[id]
		job.state, job.worker = "running", worker
		job.attempts = job.attempts + 1
		eventd.post(worker, "make", id .. " " .. job.name)
		job.timer = eventd.delay(TIMEOUT, "overdue", id)
	end
end

local function finish(id, state, result)
	local job = jobs[id]
	job.state, job.result = state, result
	ended[#ended + 1] = id
	if #ended > KEEP then
		jobs[table.remove(ended, 1)] = nil
	end
end

local function failed(id, why)
	local job = jobs[id]
	if job.attempts < ATTEMPTS then
		job.state, job.result = "waiting", why
		table.insert(waiting, id)
	else
		finish(id, "failed", why)
	end
end

function M._start()
	for i = 1, N_WORKERS do
		local alias = eventd.alias() .. "/worker" .. i
		assert(eventd.spawn{
			script = "thumbs-worker.lua",
			alias = alias,
			params = {
				queue = eventd.alias(),
				seconds = eventd.params.seconds,
			},
		})
		idle[i] = alias
	end
end

function M.add(name)
	if name == "" then
		eventd.reply_error("give the name of a picture as the payload")
		return
	end
	last_id = last_id + 1
	jobs[last_id] = {name = name, state = "waiting", attempts = 0}
	table.insert(waiting, last_id)
	give_out()
	return last_id
end

-- From a worker: id, "done" or "failed", and what came of it.
function M.ended(data)
	local id, state, result = data:match("^(%d+) (%a+) ?(.*)$")
	id = math.tointeger(id)
	local job = jobs[id]
	if not job or job.state ~= "running" then
		return -- it was overdue and has been given to another
	end
	eventd.cancel(job.timer)
	table.insert(idle, job.worker)
	if state == "done" then
		finish(id, "done", result)
	else
		failed(id, result)
	end
	give_out()
end

-- The worker has died or hangs; whoever holds its alias now gets new work.
function M.overdue(data)
	local id = math.tointeger(data)
	local job = jobs[id]
	if job and job.state == "running" then
		table.insert(idle, job.worker)
		failed(id, "no answer within " .. TIMEOUT .. " s")
		give_out()
	end
end

local function status_of(id)
	local job = jobs[id]
	if not job then
		eventd.reply_error("there is no job " .. tostring(id))
		return
	end
	return ("%s: %s, attempt %d%s"):format(job.name, job.state,
		job.attempts, job.result and ": " .. job.result or "")
end

function M.status(data)
	if data ~= "" then
		return status_of(math.tointeger(data) or data)
	end
	local n = {waiting = 0, running = 0, done = 0, failed = 0}
	for _, job in pairs(jobs) do
		n[job.state] = n[job.state] + 1
	end
	return ("%d waiting, %d running, %d done, %d failed"):format(
		n.waiting, n.running, n.done, n.failed)
end

return M
