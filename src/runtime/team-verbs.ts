/** The verbs that the host serves with what a team has: its models and their budget, its routing of tasks, its shared state. */
import { budgets } from './budgets/budgets.ts'
import { ModelGateway } from './models/gateway.ts'
import { modelTurnVerbs } from './models/model-turn.ts'
import type { TeamKit } from './provision.ts'
import { TaskRouter } from './routing/task-router.ts'
import type { TeamSettings } from './settings.ts'
import { sharedStateVerbs } from './shared-states.ts'
import { MemoryStore } from './state-store.ts'
import type { Supervisor } from './supervisor.ts'
import type { Tracing } from './telemetry/tracing.ts'

export function serveTeamVerbs(
  supervisor: Supervisor,
  settings: TeamSettings,
  kit: TeamKit | undefined,
  tracing: Tracing | undefined,
): void {
  const { models, budget, clock, taskRouting } = settings
  const { calls } = supervisor
  const { layer, left } = budgets(budget, supervisor)
  const gateway = new ModelGateway({
    clock,
    resolve: (wanted, { cell, run }) =>
      kit?.model
        ? { client: kit.model, model: wanted ?? 'default' }
        : models.resolve(wanted, `the model of "${cell.name}"`, run.models),
    record: (run, record) => supervisor.record(run, record),
    redactor: supervisor.redactor,
    layers: [...(tracing ? [tracing.layer] : []), layer], // a span has the wait for tokens in it
  })
  calls.verbs.set('model', gateway.verb)
  const router = new TaskRouter(supervisor, taskRouting, left)
  const shared = sharedStateVerbs(supervisor, new MemoryStore()) // the only log store there is, is the team's memory
  for (const [operation, verb] of [...modelTurnVerbs(supervisor), ...router.verbs, ...shared])
    calls.verbs.set(operation, verb)
}
