// lock_internal - what a fork has to do about the locks its parent holds.
#ifndef FEDGATE_BASE_LOCK_INTERNAL_H
#define FEDGATE_BASE_LOCK_INTERNAL_H

// Around fork(): keeps the list of held locks whole while it is copied. Drop in the parent and in the child.
void lock_list_hold(void);
void lock_list_drop(void);

// In the child: closes the inherited descriptors, so that a lock ends with the process that took it.
void lock_list_forget(void);

#endif
