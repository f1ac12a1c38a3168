/** The strategies in which one agent leads the others. */
import { holdsFor } from './holds.ts'

holdsFor('hierarchical')
