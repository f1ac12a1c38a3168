/** The strategies in which one agent gives others their work. */
import { holdsFor } from './holds.ts'

holdsFor('hierarchical')
