typedef int empty_here;
