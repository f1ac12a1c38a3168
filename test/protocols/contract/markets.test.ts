/** The strategies in which agents find their work themselves. */
import { holdsFor } from './holds.ts'

holdsFor('blackboard', 'auction')
