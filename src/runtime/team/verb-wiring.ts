/**
 * Registers the verbs that the host serves with parts of the team: models and their budget, task routing.
 */
import type { Budgets } from '../budgets/budgets.ts'
import { ModelGateway } from '../models/gateway.ts'
import { modelTurnVerbs } from '../models/model-turn.ts'
import { retries } from '../providers/retries.ts'
import type { TeamSettings } from '../settings/settings.ts'
import type { Supervisor } from '../supervision/supervisor.ts'
import { TaskRouter } from '../tasks/task-router.ts'
import type { Tracing } from '../telemetry/tracing.ts'
import { NO_REHEARSAL, type ToolRehearsal, toolRehearsal } from '../tools/tool-rehearsal.ts'
import type { HostVerb } from '../verbs/host-verb.ts'
import type { TeamKit } from './provision.ts'

export function serveTeamVerbs(
  supervisor: Supervisor,
  settings: TeamSettings,
  { layer, left }: Budgets,
  kit: TeamKit | undefined,
  tracing: Tracing | undefined,
): void {
  const { models, clock, taskRouting, realTools } = settings
  const { calls, pauses } = supervisor
  const inPlace = kit?.model && retries(kit.model, { clock, provider: 'the test', pause: atOnce })
  if (!realTools) supervisor.tools.rehearsal = rehearsalOf(supervisor, settings, kit)
  else if (kit?.outside) supervisor.tools.rehearsal = outsideOf(kit.outside)
  const gateway = new ModelGateway({
    clock,
    resolve(wanted, { cell, run }) {
      const resolved = inPlace
        ? { client: inPlace, model: wanted ?? 'default' }
        : models.resolve(wanted, `the model of "${cell.name}"`, run.models)
      if (resolved.client.rehearsal) run.rehearsed = true
      return resolved
    },
    record: (run, record) => supervisor.journal.record(run, record),
    redactor: supervisor.redactor,
    written: () => supervisor.journal.written(),
    warn: (text, fields) => supervisor.logger.warn(fields, text),
    layers: [...(tracing ? [tracing.layer] : []), layer], // a span includes the wait for tokens
  })
  const ask: HostVerb = (args, caller, signal) =>
    pauses.during(caller, async () => gateway.verb(args, caller, signal), 'model')
  calls.register([['model', ask]])
  const router = new TaskRouter(supervisor, taskRouting, left)
  calls.register([...modelTurnVerbs(supervisor), ...router.verbs])
}

/**
 * Skips the pause between two attempts. A test that waits for its run would wait for ever if the pause needed the
 * test's clock.
 */
const atOnce = () => Promise.resolve()

/**
 * Returns the rules for tools in rehearsed runs. In a rehearsal of schedules every run is rehearsed. Otherwise a run is
 * rehearsed once it has asked the rehearsal model, or always if that model answers every call and plays a role.
 */
function rehearsalOf(supervisor: Supervisor, { models }: TeamSettings, kit: TeamKit | undefined): ToolRehearsal {
  if (kit?.models) return toolRehearsal({ isRehearsed: () => true, isVirtual: true })
  const isPossible = kit?.model ? kit.model.rehearsal === true : models.rehearses('sometimes')
  if (!isPossible) return NO_REHEARSAL
  const isPlayed = () => supervisor.directory.actors.some(({ settings }) => settings.playedByModel)
  const always = kit?.model !== undefined || models.rehearses('always')
  models.simulatedTools = () => simulatedTools(supervisor)
  return toolRehearsal({
    isRehearsed: (run) => run.rehearsed || (always && isPlayed()),
    isVirtual: false,
    onSimulated: () => kit?.model || models.announce(),
  })
}

function simulatedTools({ directory, tools }: Supervisor): string {
  const names = [...new Set(directory.actors.flatMap((cell) => tools.harmfulOf(cell)))].sort()
  if (names.length === 0) return ''
  const these =
    names.length === 1 ? 'This tool does not run, but is' : `These ${names.length} tools do not run, but are`
  return `${these} answered with made-up values: ${names.join(', ')}. A tool runs if it says readOnly: true, all do with rehearsal: { realTools: true }.`
}

const outsideOf = (outside: NonNullable<TeamKit['outside']>): ToolRehearsal => ({
  ...NO_REHEARSAL,
  perform: (tool, work) => (tool.outside ? outside(tool.name, work) : work()),
})
