/** What the figures were measured on. */
import { availableParallelism, cpus } from 'node:os'

export const machine = {
  cores: availableParallelism(),
  cpu: cpus()[0]?.model.trim() ?? 'unknown CPU',
  node: process.version,
}

export const machineText = `${machine.cores} cores, ${machine.cpu}, Node ${machine.node}`
