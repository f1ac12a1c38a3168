/** One night: begins a run, or goes on with the one that a process before it has left. */
import './env.js'
import { writeFileSync } from 'node:fs'
import { createTeam } from 'dramatis'
import options from './team.js'

const { DOCUMENTS = 'documents', REPORT = 'report.md', LOG = 'log' } = process.env
const team = createTeam({ ...options, stateManagement: { path: LOG } })
await team.start()

// One that was open at midnight goes first: the same documents are not read by two nights at a time.
const open = (await team.listRuns()).find(({ status }) => /queued|running|waiting/.test(status))
const today = `night of ${new Date().toISOString().slice(0, 10)}` // of UTC
let runId = open?.id ?? today
for (let attempt = 2; /failed|aborted|interrupted/.test(`${team.getRun(runId)?.status}`); attempt++)
  runId = `${today}, attempt ${attempt}`
if (open) console.log(`goes on with the ${runId}`)

const isOver = team.getRun(runId)?.status === 'finished'
const result = await team.launch(DOCUMENTS, { runId }).result
if (result.success) writeFileSync(REPORT, result.finalOutput)
if (!result.success) console.log(`The ${runId} has failed: ${result.error.message}\nStart again for another attempt.`)
else if (isOver) console.log(`The ${runId} is over already, ${REPORT} is its report: new documents are read tomorrow.`)
else console.log(`${REPORT} is written, for ${result.totalTokenUsage.totalTokens} tokens`)
await team.close()
process.exitCode = result.success ? 0 : 1
